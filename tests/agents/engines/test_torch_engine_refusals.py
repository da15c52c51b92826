"""What does not fit is refused with a type and a reason, and nothing is changed."""

from collections.abc import Callable

import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError, OutOfMemoryError, UnknownRequestError
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE, exported
from tests.agents.engines.tiny_models import LAYERS, VOCABULARY

Made = Callable[[str], TinyModel]


@pytest.fixture
def whole(tiny_model: Made) -> TorchEngine:
    return load_torch_engine(tiny_model("mistral")[0], LayerRange.whole(LAYERS), 32, torch.float32, DEVICE)


def batch_of(*requests: StepRequest) -> StepBatch:
    return StepBatch(requests)


@pytest.mark.parametrize(
    ("batch", "rows", "message"),
    [
        (batch_of(), torch.zeros(0, dtype=torch.int64), "at least one request"),
        (batch_of(StepRequest("a", 0, 1), StepRequest("a", 0, 1)), torch.tensor([1, 2]), "each only once"),
        (batch_of(StepRequest("a", 0, 2)), torch.tensor([1]), r"shape \(2,\)"),
        (batch_of(StepRequest("a", 0, 1)), torch.tensor([VOCABULARY]), "token ids must be in"),
        (batch_of(StepRequest("a", 5, 1)), torch.tensor([1]), "0 tokens are cached"),
        (batch_of(StepRequest("a", 0, 300)), torch.ones(300, dtype=torch.int64), "past the context of 256"),
    ],
)
def test_a_step_that_makes_no_sense(whole: TorchEngine, batch: StepBatch, rows: torch.Tensor, message: str) -> None:
    with pytest.raises(BadBatchError, match=message):
        whole.step(batch, rows)
    assert whole.free_kv_blocks == 32


def test_parts_of_a_kv_cache_that_are_not_there(whole: TorchEngine) -> None:
    with pytest.raises(UnknownRequestError):
        exported(whole, "a", KvPart(0, 1, 0, 1, 0, 1))
    whole.reserve("a", 40)
    for part, message in (
        (KvPart(5, 2, 0, 1, 20, 1), "layers"),
        (KvPart(0, 1, 1, 2, 20, 1), "KV heads"),
        (KvPart(0, 1, 0, 1, 0, 10), r"keeps tokens \[17, 40\)"),
        (KvPart(0, 1, 0, 1, 30, 11), r"keeps tokens \[17, 40\)"),
    ):
        with pytest.raises(BadBatchError, match=message):
            exported(whole, "a", part)
    with pytest.raises(BadBatchError, match="shape"):
        whole.import_kv("a", KvPart(0, 1, 0, 1, 20, 4), torch.zeros(2, 1, 5, 1, 16))
    with pytest.raises(BadBatchError, match="is new"):
        whole.reserve("a", 1)
    whole.free("a")
    whole.free("a")
    assert whole.free_kv_blocks == 32


@pytest.mark.parametrize(
    "held", [LayerRange(4, 3, False, True), LayerRange(4, 2, False, False), LayerRange(0, 2, False, False)], ids=str
)
def test_layers_the_model_does_not_have(tiny_model: Made, held: LayerRange) -> None:
    with pytest.raises(ValueError, match="does not fit a model of 6 layers"):
        load_torch_engine(tiny_model("llama")[0], held, 4, torch.float32, DEVICE)


def test_a_cache_that_no_machine_has_room_for(tiny_model: Made) -> None:
    with pytest.raises(OutOfMemoryError, match="does not fit cpu"):
        load_torch_engine(tiny_model("llama")[0], LayerRange.whole(LAYERS), 1 << 40, torch.float32, DEVICE)


def test_a_closed_engine_does_nothing(whole: TorchEngine) -> None:
    whole.close()
    with pytest.raises(BadBatchError, match="closed"):
        whole.step(batch_of(StepRequest("a", 0, 1)), torch.tensor([1]))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model_type": "mamba"}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"rope_scaling": {"rope_type": "ntk", "factor": 2.0}}, "rope_type"),
        ({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0, 2.0]}}, "long_factor"),
        ({"rope_parameters": {"rope_type": "linear"}}, "factor"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "quant_method"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"num_hidden_layers": "six"}, "num_hidden_layers"),
    ],
)
def test_architectures_that_are_not_run(tiny_model: Made, changes: dict[str, object], key: str) -> None:
    config = tiny_model("llama")[0].config | changes
    with pytest.raises(UnsupportedModelError, match=key):
        decoder_config(config)
