"""What each executor of an instance does of the work that is planned for all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from templates_lib.cells.solver import SmallProgram, optimum

LEAST = 1e-6
"""Share of an executor's time below which it is not asked for a class."""


def divided(units_per_s: Mapping[str, float], rates: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """What each executor does of an instance's planned units, by work class, with as little of its time as goes.

    `rates`: of each executor, units/s of a class when it does nothing else. What takes next to no time is left out."""
    fastest = {name: max((own.get(name, 0.0) for own in rates), default=0.0) for name in units_per_s}
    wanted = {name: units for name, units in units_per_s.items() if units > LEAST * fastest[name] > 0}
    pairs = [(e, name) for e, own in enumerate(rates) for name in own if name in wanted]
    if not pairs:
        return [{} for _ in rates]
    # Variables: shares of an executor's time for a class, and how far all are short.
    rows = np.zeros((len(rates) + len(wanted), len(pairs) + 1))
    for column, (e, name) in enumerate(pairs):
        rows[e, column] = 1.0
        rows[len(rates) + list(wanted).index(name), column] = rates[e][name] / wanted[name]
    rows[: len(rates), -1] = -1.0
    lower = np.concatenate([np.full(len(rates), -np.inf), np.ones(len(wanted))])
    upper = np.concatenate([np.zeros(len(rates)), np.full(len(wanted), np.inf)])
    cost = np.append(np.full(len(pairs), 1e-3), 1.0)
    found = optimum(SmallProgram(cost, rows, lower, upper, np.zeros(len(pairs) + 1, dtype=bool)))
    if found is None:
        raise RuntimeError("units that some executor has were divided by none")
    shares: list[dict[str, float]] = [{} for _ in rates]
    for (e, name), time in zip(pairs, found.x[:-1], strict=True):
        if time > LEAST:
            shares[e][name] = float(time * rates[e][name])
    return shares
