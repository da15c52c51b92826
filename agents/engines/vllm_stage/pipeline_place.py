"""A stage's place in the pipeline, as vLLM's models ask for it."""

import os
from dataclasses import dataclass

from agents.engines.layer_range import LayerRange


@dataclass(frozen=True, slots=True)
class PipelinePlace:
    """Stands where vLLM has its pipeline process group: the models ask it which layers and ends are theirs.

    Nothing is ever sent over it; rows travel over our own edges."""

    rank_in_group: int
    world_size: int

    @property
    def is_first_rank(self) -> bool:
        return self.rank_in_group == 0

    @property
    def is_last_rank(self) -> bool:
        return self.rank_in_group == self.world_size - 1


def take_place(held: LayerRange, model_layers: int) -> None:
    """Have the models that this process makes hold `held` from now on: at most three ranks, of which ours is one."""
    from vllm.distributed import parallel_state

    before, after = held.first_layer, model_layers - held.end
    partition = [layers for layers in (before, held.layers, after) if layers]
    os.environ["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, partition))
    parallel_state._PP = PipelinePlace(1 if before else 0, len(partition))
