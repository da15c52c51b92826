"""What a simulation assumes of gateways and schedulers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """The defaults are those of `control.gateway.settings` and `agents.scheduler.settings`."""

    admits: bool = True
    """Whether admission refuses what would wait too long; without, every request is taken."""
    max_wait_s: float = 10.0
    """Admitted work that may wait, in seconds of its class's capacity."""
    request_timeout_s: float = 600.0
    resume_wait_s: float = 30.0
    """How long a request waits for an instance when none can be used."""
    max_resumptions: int = 8
    max_waiting: int = 2048
    """Requests that wait at one instance; more go elsewhere."""
    lost_after_s: float = 5.0
    """Time from the death of an instance until a gateway knows."""
    request_s: float = 0.0
    """Time from a client to the scheduler: HTTP, tokenizer, channel."""
    reply_s: float = 0.0
    """Time from the scheduler to the client."""
    lead_s: float = 0.01
    """How long before a member has begun all that it was given it is bound to the next request."""
    streams_kv: bool = True
    """Whether KV caches are handed over layer by layer while their prompts are computed, or when they are whole."""
    use_interval_s: float = 60.0
    """How finely the use of instances is told."""
