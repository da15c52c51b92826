"""Latency objectives of a request type of an any-to-any model: which it needs depends on what it is answered with."""

from dataclasses import dataclass

from templates_lib.graphs.component import Modality

NEEDED: dict[Modality, tuple[str, ...]] = {
    Modality.TEXT: ("ttft_ms", "tpot_ms"),
    Modality.AUDIO: ("first_audio_ms", "real_time_factor"),
    Modality.IMAGE: ("image_s",),
}
"""What the answer is → objectives that it needs, and has no others."""


@dataclass(frozen=True, slots=True)
class TypeObjective:
    """0: not stated."""

    ttft_ms: float = 0.0
    """Milliseconds to the first token of a text."""
    tpot_ms: float = 0.0
    """Milliseconds for each further token."""
    first_audio_ms: float = 0.0
    """Milliseconds to the first sound of a spoken answer."""
    real_time_factor: float = 0.0
    """Seconds in which a second of speech is made: 1 keeps up with who listens."""
    image_s: float = 0.0
    """Seconds to the whole image."""
    percentile: float = 0.0
    """Percent of requests whose answer has to end in time, waiting included; 0: nothing is promised."""

    def refusal(self, answer: Modality) -> str | None:
        """Say what is lacking, or stated for nothing, of a type that is answered with `answer`; None: all is well."""
        stated = {name for names in NEEDED.values() for name in names if getattr(self, name)}
        if lacking := [name for name in NEEDED[answer] if name not in stated]:
            return f"is answered with {answer}, and has no objective {' and '.join(lacking)}; state it"
        if stray := sorted(stated - {*NEEDED[answer]}):
            fitting = " and ".join(NEEDED[answer])
            return f"is answered with {answer}, for which {', '.join(stray)} says nothing; it needs {fitting}"
        return None

    @property
    def first_s(self) -> float:
        """Seconds to the first of the answer, or to all of an image."""
        return (self.ttft_ms + self.first_audio_ms) / 1000 + self.image_s

    def rest_s(self, tokens: float, speech_s: float) -> float:
        """Seconds from then to the end of an answer of so many tokens of text or seconds of speech."""
        return tokens * self.tpot_ms / 1000 + speech_s * self.real_time_factor
