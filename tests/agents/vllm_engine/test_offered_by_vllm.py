"""Whatever a plan offers of the catalogue under vLLM is served by the node's own program: in every split of up to four
devices the tokens are those of transformers. Left to a GPU: MXFP4, and experts that are placed whole, for which vLLM's
kernel on CPUs reads beyond its memory (0.32 ends by a signal)."""

import json
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from agents.messages.to_gateway import Finished
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.splits import splits
from templates_lib.values.engines import support_of
from tests.agents.engines.offered_models import offered, save_tiny, tiny_config
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference
from tests.agents.stage.instances import Gateway, play
from tests.agents.stage.questions import asked
from tests.agents.vllm_engine.nodes import VllmNode

pytestmark = [pytest.mark.slow, pytest.mark.needs("vllm")]

VLLM = support_of("vllm")
CONTEXT, TOKENS = 256, 5
HEAD_DIM = 32
"""The least that vLLM's attention on a CPU takes."""
CUT_OVER_FOUR = ("llama-3-70b", "qwen3-235b-a22b")
"""One with experts and one without: each of its processes takes seconds to start."""
ON_GPUS_ONLY = ("mxfp4",)
"""Formats for which vLLM has no kernel on a CPU."""


def architectures() -> list[str]:
    """One model of each; those that differ by their sizes alone are one."""
    models = sorted({model for model, engine, _, _ in offered() if engine == "vllm"})
    by_config: dict[str, str] = {}
    for model in models:
        by_config.setdefault(json.dumps(tiny_config(model, HEAD_DIM), sort_keys=True), model)
    return list(by_config.values())


def on_a_cpu(name: str) -> bool:
    stored = model_from_hf_config(tiny_config(name, HEAD_DIM), name, "").stored
    return stored is not None and not set(stored.formats) & set(ON_GPUS_ONLY)


CASES = [
    (name, parallel)
    for name in filter(on_a_cpu, architectures())
    for devices in ((1, 2, 4) if name in CUT_OVER_FOUR else (1, 2))
    for parallel in splits(model_from_hf_config(tiny_config(name, HEAD_DIM), name, ""), devices, VLLM)
    if parallel.ep == 1
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, PreTrainedModel]]:
    names = dict.fromkeys(name for name, _ in CASES)
    return {name: save_tiny(tiny_config(name, HEAD_DIM), tmp_path_factory.mktemp(name)) for name in names}


@pytest.mark.parametrize(("name", "parallel"), CASES, ids=str)
def test_every_split_gives_the_tokens_of_transformers(
    tmp_path: Path, saved: dict[str, tuple[Path, PreTrainedModel]], name: str, parallel: Parallel
) -> None:
    folder, model = saved[name]
    prompts = {n: prompt_of(9 + 20 * n, n) for n in range(3)}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, prompt, TOKENS) for n, prompt in prompts.items()))
        await gateway.until(lambda: len(gateway.ends()) == len(prompts))
        for n, prompt in prompts.items():
            assert isinstance(gateway.ends()[n], Finished), gateway.ends()[n]
            assert_same(gateway.tokens(n), reference(model, prompt, TOKENS))

    vocabulary = tiny_config(name, HEAD_DIM)["vocab_size"]
    cut = ("--tensor-parallel", str(parallel.tp), "--parts", str(parallel.pp))
    with VllmNode(tmp_path, folder, "tiny", vocabulary, CONTEXT, options=cut) as node:
        play(node, scenario)
