"""Greedy requests to a pipeline that begin with KV blocks of others, and leave some."""

from agents.engines.batch import BlockName, StepRequest
from agents.engines.sampling import GREEDY
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from tests.agents.engines.pipelines import Pipeline


def ask(
    pipeline: Pipeline, request: str, prompt: list[int], tokens: int, shared: tuple[BlockName, ...] = ()
) -> list[int]:
    """Greedy tokens of a request that stays in the cache."""
    begin = len(shared) * BLOCK_TOKENS
    (sample,) = pipeline.forward(
        (StepRequest(request, begin, len(prompt) - begin, GREEDY, shared=shared),), prompt[begin:]
    )
    answer = [sample.token_id]
    for position in range(len(prompt), len(prompt) + tokens - 1):
        (sample,) = pipeline.forward((StepRequest(request, position, 1, GREEDY),), answer[-1:])
        answer.append(sample.token_id)
    return answer


def free(pipeline: Pipeline, request: str, kept: tuple[int, ...] = ()) -> None:
    for stage in pipeline.stages:
        stage.free(request, kept)


def drop(pipeline: Pipeline, *blocks: BlockName) -> None:
    for stage in pipeline.stages:
        stage.drop(blocks)


def free_blocks(pipeline: Pipeline) -> set[int]:
    return {stage.free_kv_blocks for stage in pipeline.stages}


def names(request: str, blocks: int) -> tuple[BlockName, ...]:
    return tuple(BlockName(request, block) for block in range(blocks))
