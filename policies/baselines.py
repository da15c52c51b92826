"""The registry of baselines: other ways to allocate, solved on the same snapshot for comparison."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from templates_lib.ports.solve import Solve
    from templates_lib.values.library import Library
    from templates_lib.values.plan import Plan
    from templates_lib.values.snapshot import Snapshot

Method = Callable[["Snapshot", "Library", "Solve"], "Plan"]
"""What makes a plan, given the planner."""

BASELINES = {
    "homo": "policies.homo:plan_homo",
    "homo_joint": "policies.homo_joint:plan_homo_joint",
    "cauchy": "policies.cauchy:plan_cauchy",
}
"""Name → its `Method`, as MODULE:FUNCTION: the command line knows the names from its start, and the solvers behind them
are slow to import. Plans on record name their baselines so."""
MEDLEY = "medley"
STRATEGIES = (MEDLEY, *(name.replace("_", "-") for name in BASELINES))
"""What can plan in a simulation, as scenarios and options spell it."""


if TYPE_CHECKING:
    StrategyName = str
else:  # a type checker cannot read names out of a mapping; documents and options refuse others all the same
    StrategyName = Literal[STRATEGIES]


def baseline(name: str) -> Method:
    """`name`: a key of `BASELINES`, or as in `STRATEGIES`. Raises KeyError."""
    method: Method = resolve_name(BASELINES[name.replace("-", "_")])
    return method
