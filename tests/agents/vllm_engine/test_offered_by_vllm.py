"""Whatever a plan offers of the catalogue under vLLM is served by the node's own program: in every split of up to four
devices the tokens are those of transformers, and the fullest device holds the bytes that plans count. Left to a GPU:
MXFP4, and experts that are placed whole, for which vLLM's kernel on CPUs reads beyond its memory (0.32 ends by a
signal)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from agents.messages.to_gateway import Finished
from agents.vllm_engine.held_weights import TOLERANCE
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
WIDER = {"max_position_embeddings": CONTEXT, "vocab_size": 255, "intermediate_size": 256}
"""Beside what a published size holds, the table of rotary positions is nothing; and so is what vLLM pads, vocabularies
to multiples of 64 entries and on CPUs experts to 32 columns a device."""
WIDER_EXPERTS = {"moe_intermediate_size": 128}
CUT_OVER_FOUR = ("llama-3-70b", "qwen3-235b-a22b")
"""One with experts and one without: each of its processes takes seconds to start."""
ON_GPUS_ONLY = ("mxfp4",)
"""Formats for which vLLM has no kernel on a CPU."""


def small_config(model: str) -> dict[str, Any]:
    small = tiny_config(model, HEAD_DIM)
    return small | WIDER | (WIDER_EXPERTS if WIDER_EXPERTS.keys() & small else {})


def architectures() -> list[str]:
    """One model of each; those that differ by their sizes alone are one."""
    models = sorted({model for model, engine, _, _ in offered() if engine == "vllm"})
    by_config: dict[str, str] = {}
    for model in models:
        by_config.setdefault(json.dumps(small_config(model), sort_keys=True), model)
    return list(by_config.values())


def on_a_cpu(name: str) -> bool:
    stored = model_from_hf_config(small_config(name), name, "").stored
    return stored is not None and not set(stored.formats) & set(ON_GPUS_ONLY)


CASES = [
    (name, parallel)
    for name in filter(on_a_cpu, architectures())
    for devices in ((1, 2, 4) if name in CUT_OVER_FOUR else (1, 2))
    for parallel in splits(model_from_hf_config(small_config(name), name, ""), devices, VLLM)
    if parallel.ep == 1
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, PreTrainedModel]]:
    names = dict.fromkeys(name for name, _ in CASES)
    return {name: save_tiny(small_config(name), tmp_path_factory.mktemp(name)) for name in names}


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
        said = re.search(r"weights take (\d+) bytes on the fullest device, plans count (\d+)", node.log)
        assert said is not None
        held, planned = map(int, said.groups())
        assert held == pytest.approx(planned, rel=TOLERANCE)

    vocabulary = small_config(name)["vocab_size"]
    cut = ("--tensor-parallel", str(parallel.tp), "--parts", str(parallel.pp))
    with VllmNode(tmp_path, folder, "tiny", vocabulary, CONTEXT, options=cut) as node:
        play(node, scenario)
