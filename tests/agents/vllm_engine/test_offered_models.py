"""Every family of the catalogue that plans offer `engine: vllm` for on rented nodes, in each phase: what vLLM's node
prefills another engine decodes, and the other way round, with the tokens of one engine."""

from pathlib import Path

import pytest

from agents.engines.loading import check_engine
from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.offered_models import LAYERS, offered, published_config, save_tiny, tiny_config
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import VOCABULARY, prompt_of
from tests.agents.hand_off.fleet import QUICK, Fleet
from tests.agents.vllm_engine.test_hand_over import stopped

pytestmark = [pytest.mark.slow, pytest.mark.needs("vllm")]

FAMILIES = {
    published_config(model)["model_type"]: model for model in sorted({m for m, e, *_ in offered() if e == "vllm"})
}
"""A model of each."""
SIZES = {"head_dim": 32, "hidden_size": 256, "vocab_size": VOCABULARY}
"""That vLLM's kernels have."""


@pytest.mark.parametrize("model", FAMILIES.values())
def test_either_phase_gives_the_tokens_of_one_engine(tmp_path: Path, model: str) -> None:
    folder, _ = save_tiny(tiny_config(model) | SIZES, tmp_path / "model")
    checkpoint = open_checkpoint(folder)
    check_engine("vllm", checkpoint, model)
    whole = Pipeline.load(checkpoint, [LAYERS])
    with stopped(Fleet(tmp_path, folder)) as fleet:
        fleet.add("t1", PREFILL, ((LAYERS,), ((1.0,),)))
        fleet.add_vllm("v1", DECODE)
        fleet.publish()
        fleet.start_gateway(*QUICK)
        for prefill, decode in (("t1", "v1"), ("v1", "t1")):
            fleet.pair(prefill, decode)
            streams = {length: fleet.stream(prompt_of(length, length), 12) for length in (10, 70)}
            for length, stream in streams.items():
                assert stream.end() == whole.generate(prompt_of(length, length), 12), f"{prefill} to {decode}"
