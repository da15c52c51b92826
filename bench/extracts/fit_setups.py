"""Fits engines to end-to-end rows: over all releases, then each release and each machine near its parent."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from fit_engines import Features, features, fit_engine, fit_unstated
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, ServingOverhead, Setup, setup_names
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.validation import Maker, estimate_for, is_held_out

Rows = NDArray[np.bool_]
FEWEST_ROWS = 10
"""Fewer say less about a release or machine than its parent does."""
BEGIN = ServingOverhead(0.05, 0.05, 1.0, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 0.05)


@dataclass(frozen=True)
class Backend:
    """Rows of one backend, ready to be fitted. Arrays (n,)."""

    name: str
    rows: Features
    training: Rows
    """Not held out by the rows' hash."""
    releases: NDArray[np.str_]
    machines: NDArray[np.str_]
    """Names of the setup of each row: its release, and that release on its machine type."""

    def fit(self, keep: Rows) -> tuple[Setup, dict[str, Setup]]:
        """The engine over all rows of `keep` (n,), and its setups."""
        whole = self.whole(keep)
        found: dict[str, Setup] = {}
        for release in np.unique(self.releases):
            of_release = self.releases == release
            parent = whole
            if self._are_enough(keep & of_release):
                parent = found[str(release)] = self._fit(keep & of_release, str(release), whole)
            for machine in np.unique(self.machines[of_release]):
                rows = keep & (self.machines == machine)
                if self._are_enough(rows):
                    found[str(machine)] = self._fit(rows, str(machine), parent)
        return whole, found

    def whole(self, keep: Rows) -> Setup:
        """The engine over all rows of `keep` (n,): what plans are made with."""
        return self._fit(keep, f"{self.name}, all releases", None)

    def _are_enough(self, rows: Rows) -> bool:
        return int(rows.sum()) >= FEWEST_ROWS

    def _fit(self, keep: Rows, name: str, parent: Setup | None) -> Setup:
        """Rows that hide how many workers share the clients do not bend the engine's numbers: they only say how many
        they usually are."""
        stated = keep & self.rows.load.stated
        evidence = f"fitted to {int(stated.sum())} end-to-end rows of {name}"
        if parent is None:
            setup = fit_engine(self.rows.take(stated), evidence, BEGIN)
        elif self._are_enough(stated):
            setup = fit_engine(self.rows.take(stated), evidence, parent.serving, parent)
        else:
            setup = parent
        hidden = keep & ~self.rows.load.stated
        if parent is not None and not self._are_enough(hidden):
            return setup
        return fit_unstated(self.rows.take(hidden), setup, alike=parent is not None)


def backend_rows(
    rows: list[tuple[Mapping[str, str], Deployment]],
    coefficients: Coefficients,
    name: str,
    maker: Maker = estimate_for,
) -> Backend:
    own = [(row, d) for row, d in rows if d.backend == name]
    deployments = [d for _, d in own]
    training = np.array([not is_held_out(row) for row, _ in own])
    names = np.array([setup_names(name, d.release, d.system.name) for d in deployments])
    return Backend(name, features(deployments, coefficients, BEGIN, maker), training, names[:, 0], names[:, 1])
