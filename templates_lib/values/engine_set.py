"""The engines of one template as a name: its nodes install all of them."""

from collections.abc import Iterable

UNKNOWN = ""
"""Of templates that were stored when nobody kept it, and of plans of them: it counts for whichever costs most."""
_AND = "+"


def engine_set(names: Iterable[str]) -> str:
    """Return the name of these engines together, such as `torch` or `echo+torch`."""
    return _AND.join(sorted(set(names)))


def engines_of(name: str) -> tuple[str, ...]:
    """Return the engines that a name stands for; none: they are not known."""
    return tuple(name.split(_AND)) if name else ()
