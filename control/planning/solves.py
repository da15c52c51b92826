"""Solves that follow one another: each begins with what those before it have found."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from msgspec import UNSET

from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    snapshot: Snapshot
    library: Library
    plan: Plan

    def is_alike(self, snapshot: Snapshot) -> bool:
        """Tell whether the snapshots differ in nothing but caps and their factors."""
        return _without_caps(self.snapshot) == _without_caps(snapshot)

    def allows(self, snapshot: Snapshot, library: Library) -> bool:
        """Tell whether every plan over `library` under the caps of `snapshot` would have been one here."""
        own, other = self.snapshot.settings, snapshot.settings
        if own.step_time_margins not in (UNSET, other.step_time_margins):
            return False
        classes = [each.id for each in library.classes]
        if any(own.cap(each, name) < other.cap(each, name) for each in classes for name in _named(own, each)):
            return False
        return library is self.library or bool(np.isin(library.ids, self.library.ids).all())


@dataclass(frozen=True, slots=True, eq=False)
class RememberedSolves:
    """The solver, which remembers. Where a plan serves all, whatever is allowed less, by caps or for want of templates,
    costs no less than that plan was proven to cost at least: what is found again needs no proof of its own."""

    solve: Solve
    _past: list[_Past] = field(default_factory=list)

    def __call__(
        self,
        snapshot: Snapshot,
        library: Library,
        *,
        policy: str = "medley",
        known: Collection[Plan] = (),
        least: float = -inf,
    ) -> Plan:
        alike = [past for past in self._past if past.is_alike(snapshot)]
        bounds = (past.plan.bound for past in alike if not past.plan.unmet and past.allows(snapshot, library))
        plan = self.solve(
            snapshot,
            library,
            policy=policy,
            known=(*known, *(past.plan for past in alike)),
            least=max(least, *bounds, -inf),
        )
        self._past.append(_Past(snapshot, library, plan))
        return plan


def _named(settings: Settings, work_class: str) -> Iterable[str]:
    """Templates of a class that have caps of their own, and one that has none."""
    return "", *settings.template_caps.get(work_class, {})


def _without_caps(snapshot: Snapshot) -> Snapshot:
    settings = replace(snapshot.settings.capped({}).without_allowances(), utilisation_cap=1.0)
    return replace(snapshot, version="", settings=settings)
