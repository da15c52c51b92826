"""The check of one plan against its snapshot."""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from control.checker import engines, guardrails, identity, money, service, supply, survival
from control.checker.case import case_of
from control.checker.claims import Claim
from control.checker.violation import Violation
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.stored_weights import StoredWeights


def check(
    plan: Plan,
    snapshot: Snapshot,
    claims: Mapping[str, Claim] | None = None,
    checkpoints: Mapping[str, StoredWeights] = MappingProxyType({}),
) -> tuple[Violation, ...]:
    """Return everything that does not hold; empty for a sound plan.

    `claims` (template id → what the library certified) holds nodes and capacities to the library as well,
    `checkpoints` (model id → what it was planned from) holds engines to what they declare. A plan with a number that is
    not finite is reported for that alone, since nothing can be reckoned with it.
    """
    broken = tuple(_not_finite("plan", msgspec.to_builtins(plan)))
    if broken:
        return broken
    case = case_of(plan, snapshot, claims, checkpoints)
    parts = (identity, engines, supply, service, money, guardrails, survival)
    return tuple(violation for part in parts for violation in part.violations(case))


def _not_finite(where: str, value: Any) -> Iterator[Violation]:
    if isinstance(value, float) and not math.isfinite(value):
        yield Violation("number", where, "a finite number", f"{value}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _not_finite(f"{where}.{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _not_finite(f"{where}[{index}]", item)
