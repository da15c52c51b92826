"""Whatever a plan offers of the catalogue on rented nodes runs as it is planned: in every split of a node and every
phase the tokens are those of transformers, and the bytes those that are declared."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from agents.engines.layer_range import LayerRange
from agents.engines.loading import check_engine, load_stage_engine
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import TorchEngine
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.shard import Shard
from agents.weights.source import open_checkpoint
from templates_lib.models.held_model import held_by, refusal
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.memory import node_memory
from templates_lib.throughput.splits import splits
from templates_lib.values.engines import support_of
from templates_lib.values.hardware import gpu
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase
from tests.agents.engines.node_splits import BLOCKS, hand_over, split_model
from tests.agents.engines.offered_models import (
    LAYERS,
    QUANTISED,
    PublishedShapes,
    offered,
    published_config,
    save_tiny,
    tiny_config,
)
from tests.agents.engines.pipelines import DEVICE, Pipeline, cut
from tests.agents.engines.test_packed_weights import held_bytes
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference

OFFERED = offered()
TORCH = support_of("torch")
BY_CONFIG: dict[str, list[str]] = {}
for _model in sorted({model for model, engine, _, _ in OFFERED if engine == "torch"}):
    BY_CONFIG.setdefault(json.dumps(tiny_config(_model), sort_keys=True), []).append(_model)
ARCHITECTURES = [models[0] for models in BY_CONFIG.values()]
"""Models that differ by their sizes alone are one of them."""
TOKENS = 5
Tiny = Callable[[str], tuple[Path, PreTrainedModel]]


def splits_of(*gpus: int) -> list[tuple[str, Parallel]]:
    """Replicas that share nothing are like one."""
    found = []
    for name in ARCHITECTURES:
        model = model_from_hf_config(tiny_config(name), name, "")
        every = [each for count in gpus for each in splits(model, count, TORCH)]
        alone = [each if each.ep > 1 else replace(each, dp=1) for each in every]
        found += [(name, parallel) for parallel in dict.fromkeys(alone)]
    return found


FEW = splits_of(1, 2)
OF_FOUR = [each for each in splits_of(4) if each not in FEW]
TRIED = [*FEW, *(pytest.param(*each, marks=pytest.mark.slow) for each in OF_FOUR)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return cache(lambda name: save_tiny(tiny_config(name), tmp_path_factory.mktemp(name)))


def test_every_model_of_a_format_and_phase_that_is_offered_is_tried() -> None:
    """In each phase a model is tried below; quantised formats that others publish are tried in test_packed_weights."""
    tried = {model for models in BY_CONFIG.values() for model in models}
    by_torch = {(model, form, phase) for model, engine, form, phase in OFFERED if engine == "torch"}
    assert by_torch
    for model, form, phase in by_torch:
        stored = model_from_hf_config(tiny_config(model), model, "").stored
        assert model in tried
        assert stored is not None
        assert form in stored.formats
        assert phase in (Phase.PREFILL, Phase.DECODE, Phase.AGGREGATED)


@pytest.mark.parametrize(("name", "parallel"), TRIED, ids=str)
def test_every_split_and_phase_gives_the_tokens_of_transformers(tiny: Tiny, name: str, parallel: Parallel) -> None:
    folder, model = tiny(name)
    checkpoint = open_checkpoint(folder)
    check_engine("torch", checkpoint, name)
    config = decoder_config(checkpoint.config)
    parts = cut([1, LAYERS - 1])
    other = [load_stage_engine("torch", checkpoint, held, BLOCKS, torch.float32, DEVICE) for held in parts]
    elsewhere = [engine for engine in other if isinstance(engine, TorchEngine)]
    with split_model(parallel) as here:
        here.load(checkpoint, LAYERS)
        prompts = [prompt_of(33, seed) for seed in range(here.replicas)]
        expected = [reference(model, prompt, TOKENS) for prompt in prompts]
        after_prompt = here.prompted(prompts)
        # Its prompts are decoded elsewhere, and then by itself.
        for replica, running in enumerate(after_prompt):
            hand_over(len(prompts[replica]), here.of_replica(replica), elsewhere)
            assert_same(finished(Pipeline(elsewhere), running), expected[replica])
        for tokens, each in zip(here.finished(after_prompt, TOKENS), expected, strict=True):
            assert_same(tokens, each)
        # It decodes what was prompted elsewhere.
        for replica, prompt in enumerate(prompts):
            (running,) = Pipeline(elsewhere).step([replace(after_prompt[replica], **as_new(prompt))], chunk=64)
            hand_over(len(prompt), elsewhere, here.of_replica(replica))
            Pipeline(elsewhere).free("x")
            assert running.tokens == after_prompt[replica].tokens
        for tokens, each in zip(here.finished(after_prompt, TOKENS), expected, strict=True):
            assert_same(tokens, each)
        for rank, engines in enumerate(here.engines):
            for engine in engines:
                need = memory_need(checkpoint, config, engine.facts.held, torch.float32, here.shards[rank])
                assert need.weight_bytes == pytest.approx(held_bytes(engine._stage), rel=0.03)


def as_new(prompt: list[int]) -> dict[str, object]:
    return {"pending": tuple(prompt), "position": 0, "tokens": ()}


def finished(pipeline: Pipeline, running) -> list[int]:
    while len(running.tokens) < TOKENS:
        (running,) = pipeline.step([running], chunk=1)
    pipeline.free("x")
    return list(running.tokens)


def few_layers(name: str) -> dict[str, Any]:
    """All layers, or pairs of them, are alike."""
    config = published_config(name) | {"num_hidden_layers": LAYERS}
    return config | ({"layer_types": config["layer_types"][:LAYERS]} if "layer_types" in config else {})


TORCH_MODELS = sorted({model for model, engine, _, _ in OFFERED if engine == "torch"})
IN_FORMATS = [(name, "as published") for name in TORCH_MODELS]
IN_FORMATS += [(name, form) for name in TORCH_MODELS if not name.startswith("gpt-oss") for form in QUANTISED]


@pytest.mark.parametrize(("name", "form"), IN_FORMATS)
def test_at_real_width_each_device_holds_what_plans_count(name: str, form: str) -> None:
    as_stored = {} if form == "as published" else {"quantization_config": QUANTISED[form]}
    checkpoint = PublishedShapes(few_layers(name) | as_stored)
    config = decoder_config(checkpoint.config)
    model = held_by("torch", model_from_hf_config(checkpoint.config, name, ""))
    assert model.stored is not None
    assert refusal("torch", name, model.stored) is None
    dtype = torch.bfloat16
    for gpus in (1, 2, 4, 5, 8):
        for parallel in splits(model, gpus, TORCH):
            for role in StageRole:
                held = held_range(role)
                if parallel.pp > held.layers:
                    continue
                counted = node_memory(model, gpu("H100"), parallel, np.array([held.layers]), TORCH).weights_bytes
                planned = float(counted[list(StageRole).index(role)].flatten()[0])
                needed = max(
                    memory_need(checkpoint, config, part, dtype, shard_like(parallel)).weight_bytes
                    for part in parts_of(held, parallel.pp)
                )
                # Of parts that are not equal, plans count the longest with an end of the model, wherever it is.
                assert planned > 0.97 * needed, (parallel, role)
                assert held.layers % parallel.pp or planned < 1.03 * needed, (parallel, role)


def held_range(role: StageRole) -> LayerRange:
    first, last = role in (StageRole.FIRST, StageRole.ONLY), role in (StageRole.LAST, StageRole.ONLY)
    start, end = 0 if first else 1, LAYERS if last else LAYERS - 1
    return LayerRange(start, end - start, first=first, last=last)


def parts_of(held: LayerRange, count: int) -> Iterator[LayerRange]:
    """The longest part has as many layers as plans count with; which one it is, they do not say."""
    most = -(-held.layers // count)
    for number in range(count):
        start = min(held.first_layer + number * most, held.end - 1)
        end = min(start + most, held.end)
        yield LayerRange(start, end - start, held.first and number == 0, held.last and end == held.end)


def shard_like(parallel: Parallel) -> Shard:
    """The first rank of such a split, as far as what it holds is concerned."""
    shard = Shard(0, parallel.tp, parallel.ep > 1, lambda tensor: tensor)
    if parallel.ep > 1 and parallel.dp > 1:
        from agents.engines.torch_engine.expert_exchange import ExpertExchange

        size = parallel.tp * parallel.dp
        return replace(shard, exchange=ExpertExchange(0, size, parallel.dp, lambda tensor: tensor, DEVICE))
    return shard
