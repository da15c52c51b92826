"""Finds the end of a JSON value in text that comes in pieces."""


class JsonSpan:
    """Follows one object or array by brackets and strings alone: what is no JSON ends as soon as its brackets do, and a
    client sees what the model wrote."""

    def __init__(self) -> None:
        self.depth = 0
        """Brackets that are open."""
        self.in_string = False
        self.is_done = False
        self._is_escaped = False

    def take(self, text: str) -> int:
        """Follow text up to the value's end; how many characters of it are the value's."""
        for at, character in enumerate(text):
            self.step(character)
            if self.is_done:
                return at + 1
        return len(text)

    def step(self, character: str) -> None:
        if self.in_string:
            if self._is_escaped:
                self._is_escaped = False
            elif character == "\\":
                self._is_escaped = True
            elif character == '"':
                self.in_string = False
        elif character == '"':
            self.in_string = True
        elif character in "{[":
            self.depth += 1
        elif character in "}]":
            self.depth -= 1
            self.is_done = self.depth <= 0
