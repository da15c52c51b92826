"""Words of others, as they may be stored and shown."""


def printable(text: str, *, keeps: str = "") -> str:
    """Replace what cannot be printed by blanks: a terminal obeys some of it. `keeps`: letters that stay as they are."""
    return "".join(letter if letter.isprintable() or letter in keeps else " " for letter in text)
