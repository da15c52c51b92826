"""What objectives leave for waiting: the laws that T̂ is certified by where a spec asks for it (`Slo.queueing`)."""
