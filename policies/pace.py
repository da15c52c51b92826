"""How long prompts take at a member, over what the table of its times says."""

LEAST, MOST = 0.25, 4.0
_WEIGHT = 0.2
"""Of the newest observation."""
_SHORTEST_S = 0.01
"""What is predicted to be shorter says little: clocks and messages count."""


class Pace:
    """Observes prompts that a member computes alone: sent when it had no other to compute, and no other since."""

    def __init__(self) -> None:
        self.ratio = 1.0
        self._observed: tuple[object, float, float] | None = None

    def begin(self, prompt: object, predicted_s: float, now_s: float, *, is_alone: bool) -> None:
        self._observed = (prompt, predicted_s, now_s) if is_alone and predicted_s >= _SHORTEST_S else None

    def end(self, prompt: object, now_s: float) -> None:
        """Its first token is there."""
        if self._observed is not None and self._observed[0] is prompt:
            _, predicted_s, began_s = self._observed
            seen = min(max((now_s - began_s) / predicted_s, LEAST), MOST)
            self.ratio += _WEIGHT * (seen - self.ratio)
            self._observed = None
