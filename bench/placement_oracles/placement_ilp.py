"""The placement ILP of Coral (section 4.2) for one number of stages, as arrays that any solver reads."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.throughput_table import StageRole

GREATER, EQUAL, LESS = ">", "=", "<"


@dataclass(frozen=True, slots=True)
class Row:
    """Σ coefficient · variable (sense) right-hand side."""

    coefficients: tuple[tuple[int, float], ...]
    sense: str
    rhs: float


@dataclass(frozen=True, slots=True, eq=False)
class PlacementIlp:
    """Maximise variable 0, the throughput over `scale`; all others are binary: x (S, L), y (S, K), z (S, L, K)."""

    stages: int
    nodes: tuple[int, ...]
    layers: int
    scale: float
    """Units/s of one unit of the objective, and an upper bound of it: solvers' tolerances are absolute, about 1e-6."""
    least: float
    """Lower bound of variable 0: only a placement that serves at least as much is looked for."""
    rows: tuple[Row, ...]

    @property
    def variables(self) -> int:
        return 1 + self.stages * (self.layers + len(self.nodes) + self.layers * len(self.nodes))

    def layer_variable(self, stage: int, layers: int) -> int:
        """x_sj: stage s holds j consecutive layers."""
        return 1 + stage * self.layers + layers - 1

    def node_variable(self, stage: int, node: int) -> int:
        """y_sk: node k is in stage s."""
        return 1 + self.stages * self.layers + stage * len(self.nodes) + node

    def both_variable(self, stage: int, layers: int, node: int) -> int:
        """z_sjk = x_sj · y_sk."""
        before = 1 + self.stages * (self.layers + len(self.nodes))
        return before + (stage * self.layers + layers - 1) * len(self.nodes) + node

    def units_per_s(self, solution: NDArray[np.float64], units: NDArray[np.float64]) -> float:
        """Units/s of the slowest stage, recomputed from a solution's x and y with T̂ as in `placement_ilp`."""
        slowest = np.inf
        for s in range(self.stages):
            held = [solution[self.layer_variable(s, j)] for j in range(1, self.layers + 1)]
            layers = int(np.argmax(held))
            inside = [k for k in range(len(self.nodes)) if solution[self.node_variable(s, k)] > 0.5]
            stage = units[stage_role(s, self.stages), self.stages - 1, [self.nodes[k] for k in inside], layers]
            slowest = min(slowest, float(stage.sum()))
        return slowest


def stage_role(stage: int, stages: int) -> StageRole:
    if stages == 1:
        return StageRole.ONLY
    if stage == 0:
        return StageRole.FIRST
    return StageRole.LAST if stage == stages - 1 else StageRole.MIDDLE


def placement_ilp(
    units_per_s: NDArray[np.float64], nodes: tuple[int, ...], stages: int, least_units_per_s: float
) -> PlacementIlp:
    """The ILP of `nodes` (configuration index of each) in `stages` stages, the first and last in those roles.

    `units_per_s` (4, B, C, L) is T̂ with an even split: budget `stages` - 1 is that of each stage. Beside the paper's
    rows, equal nodes are ordered by stage, which loses no placement and spares the solver their permutations.

    Some stage holds L / S layers or more, so no placement serves more than all nodes together do there; T̂ above that
    is cut down to it, which changes no placement's throughput.
    """
    layers = units_per_s.shape[3]
    table = units_per_s[:, stages - 1][:, list(nodes)]
    most = float(table[:, :, -(-layers // stages) - 1].max(axis=0).sum())
    scale = most or 1.0
    ilp = PlacementIlp(stages, nodes, layers, scale, least_units_per_s / scale, ())
    every_stage, every_node, every_count = range(stages), range(len(nodes)), range(1, layers + 1)
    rows = [Row(tuple((ilp.layer_variable(s, j), 1.0) for j in every_count), EQUAL, 1.0) for s in every_stage]
    rows += [Row(tuple((ilp.node_variable(s, k), 1.0) for s in every_stage), EQUAL, 1.0) for k in every_node]
    held = tuple((ilp.layer_variable(s, j), float(j)) for s in every_stage for j in every_count)
    rows.append(Row(held, EQUAL, float(layers)))
    for s in every_stage:
        served = tuple(
            (ilp.both_variable(s, j, k), min(1.0, float(table[stage_role(s, stages), k, j - 1] / scale)))
            for j in every_count
            for k in every_node
        )
        rows.append(Row(((0, -1.0), *served), GREATER, 0.0))
        for j in every_count:
            for k in every_node:
                x, y, z = ilp.layer_variable(s, j), ilp.node_variable(s, k), ilp.both_variable(s, j, k)
                rows.append(Row(((z, 1.0), (x, -1.0)), LESS, 0.0))
                rows.append(Row(((z, 1.0), (y, -1.0)), LESS, 0.0))
                rows.append(Row(((z, 1.0), (x, -1.0), (y, -1.0)), GREATER, -1.0))
    for k in every_node[1:]:
        if nodes[k - 1] == nodes[k]:
            for s in every_stage:
                earlier = tuple((ilp.node_variable(q, k - 1), -1.0) for q in range(s + 1))
                rows.append(Row((*earlier, *((ilp.node_variable(q, k), 1.0) for q in range(s + 1))), LESS, 0.0))
    return replace(ilp, rows=tuple(rows))
