"""What decoding a picture holds at once, against what is reckoned for it, and how large a picture may be."""

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agents.engines.errors import BadBatchError
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.picture_decoder import read_picture_decoder
from agents.engines.torch_components.word_pictures import load_word_pictures
from agents.messages.component_work import AskedPicture
from agents.weights.source import open_checkpoint
from templates_lib.models.config_fields import Fields
from tests.agents.engines.components.tiny_pictures import CONFIG, save_pictures

CPU = torch.device("cpu")


class Peak(TorchDispatchMode):
    """Counts the bytes of tensors that are made and not let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._live: dict[int, int] = {}

    def __torch_dispatch__(self, function: Any, _types: Any, given: Any = (), named: Any = None) -> Any:
        made = function(*given, **(named or {}))
        for each in made if isinstance(made, tuple | list) else [made]:
            storage = each.untyped_storage()
            if storage._cdata not in self._live:
                self._live[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self._live.pop, storage._cdata)
        self.most = max(self.most, sum(self._live.values()))
        return made


@pytest.mark.parametrize(
    ("base", "times"), [(96, [1, 2, 4, 4]), (16, [1, 2, 4]), (16, [1, 8]), (16, [4, 1]), (16, [1])]
)
def test_decoding_holds_no_more_than_is_reckoned(base: int, times: list[int]) -> None:
    vae = {
        "base_dim": base,
        "dim_mult": times,
        "num_res_blocks": 2,
        "z_dim": 4,
        "latents_mean": [0.0] * 4,
        "latents_std": [1.0] * 4,
    }
    decoder = read_picture_decoder(Fields.of(vae, ""), lambda _, shape: torch.empty(shape, device="meta"))
    with Peak() as peak, torch.no_grad():
        pixels = decoder(torch.empty(1, 4, 4, 4, device="meta"))
    held = peak.most / pixels.element_size() / pixels[0, 0].numel()
    assert 0.5 * decoder.values_per_pixel < held <= decoder.values_per_pixel


def test_memory_of_a_batch_has_room_for_decoding_the_largest_picture(tmp_path: Path) -> None:
    config = CONFIG | {"vae": CONFIG["vae"] | {"base_dim": 64}}
    saved = open_checkpoint(save_pictures(tmp_path, config))
    facts = load_word_pictures(saved, torch.float32, CPU, Limits(most_rows=1000)).facts
    largest = 500 * 4 * 4  # pixels: a picture takes rows with its text and without
    assert facts.most_memory_bytes - facts.weight_bytes >= largest * 4 * 64 * 4


def test_a_picture_that_no_message_could_carry_is_refused(tmp_path: Path) -> None:
    saved = open_checkpoint(save_pictures(tmp_path))
    engine = load_word_pictures(saved, torch.float32, CPU, Limits(most_rows=1 << 20))
    engine.begin(AskedPicture("red", 1448, 1448, 0))
    with pytest.raises(BadBatchError):
        engine.begin(AskedPicture("red", 1452, 1448, 0))
