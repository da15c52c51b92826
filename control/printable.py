"""Words of others, as they may be stored and shown."""


def printable(text: str) -> str:
    """Replace what cannot be printed by blanks: a terminal obeys some of it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
