"""The registry of baselines: other ways to allocate, solved on the same snapshot for comparison."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from templates_lib.ports.solve import Solve
    from templates_lib.values.library import Library
    from templates_lib.values.plan import Plan
    from templates_lib.values.snapshot import Snapshot

Method = Callable[["Snapshot", "Library", "Solve"], "Plan"]
"""A function that makes a plan, given the planner."""

BASELINES = {
    "homo": "policies.homo:plan_homo",
    "homo_joint": "policies.homo_joint:plan_homo_joint",
    "cauchy": "policies.cauchy:plan_cauchy",
    "muxserve": "policies.shared_units.muxserve:plan_muxserve",
}
"""Name → its `Method`, as MODULE:FUNCTION: the command line knows the names from its start, and the solvers behind them
are slow to import. Plans on record name their baselines so."""
OF_UNITS = frozenset({"muxserve"})
"""Those that say something only where models may share nodes."""
MEDLEY = "medley"


def strategies() -> tuple[str, ...]:
    """Return what can plan in a simulation, as scenarios and options spell it."""
    return (MEDLEY, *(name.replace("_", "-") for name in BASELINES))


def baselines_of(library: "Library") -> tuple[str, ...]:
    """Return those that plans with templates of a library are compared with."""
    return tuple(name for name in BASELINES if name not in OF_UNITS or library.limits)


def baseline(name: str) -> Method:
    """Find a baseline. `name`: a key of `BASELINES`, or as `strategies` spells it. Raises KeyError."""
    method: Method = resolve_name(BASELINES[name.replace("-", "_")])
    return method
