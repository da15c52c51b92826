"""Which services leave the memory of a place, so that another has room (DyOrc, section 5.4)."""

from collections.abc import Container, Mapping


def evicted(held: Mapping[str, float], stay: Container[str], free: float, needs: float) -> list[str] | None:
    """Return which services go so that `needs` is free, no more of them than that takes, in the order of `held`; None:
    all that may go is too little.

    `held`: the services that are there, with what each takes, and with the one that was used least recently first;
    `stay`: services that do not go; `free`: memory that nothing takes, below zero where more is taken than may be. All
    amounts are in one unit."""
    found: list[str] = []
    for name, takes in held.items():
        if free >= needs:
            break
        if name not in stay:
            found.append(name)
            free += takes
    return found if free >= needs else None
