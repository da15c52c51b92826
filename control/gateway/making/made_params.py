"""What a client wants made of a text, whichever endpoint it asked: the checked form of a request body."""

from dataclasses import dataclass

from agents.messages.component_work import AskedPicture, AskedSpeech
from control.gateway.service_tier import ServiceTier
from templates_lib.graphs.component import Modality

CHARACTERS_PER_S = 15.0
"""Of English that is spoken at its usual speed: what is booked for a speech before anybody knows its length."""


@dataclass(frozen=True, slots=True)
class MadeParams:
    model: str
    answer: Modality
    asked: tuple[AskedSpeech | AskedPicture, ...]
    """One for each answer."""
    service_tier: ServiceTier | None = None

    def units(self, mean: float) -> list[float]:
        """Units of the component's work that each answer is expected to take: seconds, or denoising steps. `mean`: of
        an answer, as planned."""
        return [_units(each, mean) for each in self.asked]


def _units(asked: AskedSpeech | AskedPicture, mean: float) -> float:
    if isinstance(asked, AskedSpeech):
        return len(asked.text) / CHARACTERS_PER_S / asked.speed
    return float(asked.steps or mean)
