"""Finds stop strings in text that comes in pieces, and holds back what may be the beginning of one."""


class StopStrings:
    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.is_found = False

    def push(self, text: str) -> str:
        """Text that is certainly before any stop string; nothing more comes once one is found."""
        if not self._stops or self.is_found:
            return "" if self.is_found else text
        text = self._held + text
        found = min((at for stop in self._stops if (at := text.find(stop)) >= 0), default=-1)
        if found >= 0:
            self.is_found, self._held = True, ""
            return text[:found]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Text that was held back and turned out to be no stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
