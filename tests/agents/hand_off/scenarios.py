"""What may happen between two instances, whatever engines they have."""

import random
import signal
from collections.abc import Sequence
from typing import Any

from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import prompt_of
from tests.agents.hand_off.fleet import Fleet


def cancel_at_random(fleet: Fleet, whole: Pipeline, *instances: str) -> None:
    """64 streams, some of which are cancelled: others get all their tokens, and neither of these `instances` holds
    anything in the end."""
    draw = random.Random(5)
    prompts = {n: prompt_of(draw.randint(1, 60), n) for n in range(64)}
    streams = {n: fleet.stream(prompt, 12) for n, prompt in prompts.items()}
    cancelled = {n for n in prompts if n % 3 == 0}
    for n in cancelled:
        streams[n].wait(draw.randint(0, 8)).cancel()
    for n, prompt in prompts.items():
        tokens = streams[n].end()
        expected = whole.generate(prompt, 12)
        assert tokens == expected[: len(tokens)]
        assert n in cancelled or len(tokens) == 12, f"request {n}"
    fleet.wait_idle(*instances)
    assert fleet.stream(prompt_of(200), 15).end() == whole.generate(prompt_of(200), 15)


def kill_during_hand_offs(fleet: Fleet, whole: Pipeline, seed: int, name: str, victim: Any, stopped: Sequence) -> None:
    """Processes that decode are `stopped`, so that hand-offs to them hang; then `victim` of instance `name` is killed,
    and the others go on."""
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    prompts = [prompt_of(30 + 12 * n, 10 * seed + n) for n in range(9)]
    streams = [fleet.stream(prompt, 25) for prompt in prompts]
    for stream in streams:
        stream.wait(1)  # its prompt is computed: it is being handed off, or was
    victim.kill()
    for process in stopped:
        process.send_signal(signal.SIGCONT)
    for prompt, stream in zip(prompts, streams, strict=True):
        assert stream.end() == whole.generate(prompt, 25)
        assert stream.reason == "length"
    fleet.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 0)
