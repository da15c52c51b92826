"""The extras of this distribution: what each is for, and which of its packages are not installed."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from control.doctor.check import Check, Health
from templates_lib.values.install_hint import install_hint

DISTRIBUTION = "medley-serving"
PURPOSES = {
    "serve": "control plane, API and gateway",
    "agent": "nodes on this machine, and the torch engine",
    "clouds": "renting nodes, and asking clouds for offers",
    "kernels": "step times by AIConfigurator's kernel tables",
    "simulate": "replaying traces",
    "plot": "pictures of plans",
    "gurobi": "solving with Gurobi in place of HiGHS",
    "tracing": "sending traces to a collector",
}
"""Extra → what it is for."""
_REQUIREMENT = re.compile(r"(?P<name>[\w.\-]+).*extra == .(?P<extra>\w+)")


def of_packages() -> Iterator[Check]:
    """Yield a check for each extra."""
    needed: dict[str, list[str]] = {extra: [] for extra in PURPOSES}
    for requirement in requires(DISTRIBUTION) or ():
        found = _REQUIREMENT.match(requirement)
        if found is not None and found["extra"] in needed:
            needed[found["extra"]].append(found["name"])
    for extra, names in needed.items():
        missing = sorted(name for name in names if not _is_installed(name))
        purpose = PURPOSES[extra]
        if missing:
            lacking = f"{purpose}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
            yield Check(f"extra.{extra}", Health.MISSING, f"{lacking}; {install_hint(extra)}")
        else:
            yield Check(f"extra.{extra}", Health.OK, purpose)


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
