"""Follows a flow from noise to what it makes (Lipman et al. 2023), as Qwen2.5-Omni's vocoder does."""

from collections.abc import Callable
from itertools import pairwise

import torch

Velocity = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(time from 0 to 1, a tensor of no axis; state) → its change a unit of time."""
STEPS = 10
"""Points of time, the first and the last included."""
_SWAY = -1.0
"""Points lie the denser the earlier (Chen et al. 2024, F5-TTS, section 3.3)."""


def follow(velocity: Velocity, state: torch.Tensor) -> torch.Tensor:
    """Integrate from time 0 to 1 by Kutta's 3/8 rule (Kutta 1901), whose error a step is of the fifth order. Times are
    fp32, as they are where the model was made."""
    even = torch.linspace(0, 1, STEPS)
    times = even + _SWAY * (torch.cos(torch.pi / 2 * even) - 1 + even)
    for start, end in pairwise(times):
        step = end - start
        first = velocity(start, state)
        second = velocity(start + step * (1 / 3), state + step * first / 3)
        third = velocity(start + step * (2 / 3), state + step * (second - first / 3))
        fourth = velocity(end, state + step * (first - second + third))
        state = state + (first + 3 * (second + third) + fourth) * step / 8
    return state
