"""Laws of waiting, which leave a part of an objective to the queue: T̂ is certified by them where a spec asks for it
(`Slo.queueing`)."""
