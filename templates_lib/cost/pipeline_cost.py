"""Costs of a pipeline to its nodes beyond computing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PipelineCost:
    """Seconds of one whole processor, which a node with a share of one takes longer for; `hop_wait_s` is time in which
    nobody computes."""

    step_cpu_s: float
    """Processor seconds of a worker and of the scheduler for each step of a group. The scheduler runs on the first
    stage's node; every stage is charged with it."""
    row_cpu_s: float
    """Processor seconds of a worker for each row of activations that it gets and sends."""
    request_cpu_s: float
    """Processor seconds of the scheduler for each token that it passes on."""
    prompt_cpu_s: float
    """Processor seconds of a worker and of the scheduler for a request that comes, beside those of its step: what they
    do about it they have not done for a while, and caches are cold."""
    hop_wait_s: float
    """Seconds from one stage's result to the next stage's start."""
    waiting_cores: float
    """Processors that scheduler and worker keep busy while there is nothing to do, and beside all that there is: each
    looks a hundred times a second for what may come. It is a twentieth of a node with a fifth of a processor."""
