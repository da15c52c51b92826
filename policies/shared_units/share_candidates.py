"""Algorithm 2 of MuxServe: the least share of the processors that carries a model's rate, for each size of mesh."""

from collections.abc import Sequence

from policies.shared_units.placed_unit import SHARES, Candidate, MeshMemory, UnitModel, member_of
from templates_lib.units.estimator import printed


def share_candidates(models: Sequence[UnitModel], memory: MeshMemory) -> dict[str, dict[int, Candidate]]:
    """Model → GPUs → how it would be there; sizes whose GPUs do not hold the model and one request are left out.

    As in the paper a model is estimated alone. Where no share carries its rate, the paper's algorithm has no
    candidate, and could not place a model that needs more than a mesh gives: such a model gets the share that carries
    most, the least of those, as in the authors' code.
    """
    return {model.name: dict(_candidates(model, memory)) for model in models}


def _candidates(model: UnitModel, memory: MeshMemory) -> list[tuple[int, Candidate]]:
    found = []
    for gpus in model.degrees:
        best: Candidate | None = None
        for share in SHARES:
            alone = printed([member_of(model, gpus, share)], memory.kv_bytes(gpus, [model]))
            if alone is None:  # does not fit, whatever its share
                break
            batch, rate = alone.members[0].batch, alone.requests_per_s
            if best is None or rate > best.requests_per_s:
                best = Candidate(gpus, share, batch, rate)
            if rate >= model.requests_per_s:
                break
        if best is not None:
            found.append((gpus, best))
    return found
