"""What Medley's engines say to pictures: the encoder apart, the decoder apart, rows between them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.components.pictures import picture_unit
from agents.engines.given_rows import EmbeddedRows, GivenRows
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.engines.sampling import Sampling
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.source import open_checkpoint
from bench.picture_reader.assembling import DEVIATION, END, MEAN
from bench.picture_reader.drawing import Drawn
from bench.picture_reader.training import prompt_of
from templates_lib.media.colours import Colours

_TOKENS = 10
_BATCH = 16
_GREEDY = Sampling(0.0, 1.0, 0, 0)


def names(folder: Path, pictures: Sequence[Drawn]) -> list[str]:
    """Answers to the question of what is in each picture."""
    checkpoint, cpu = open_checkpoint(folder), torch.device("cpu")
    encoder = load_torch_encoder(checkpoint, "vision", torch.float32, cpu)
    held = LayerRange.whole(decoder_config(decoder_part(checkpoint).config).layers)
    decoder = load_torch_engine(checkpoint, held, 8 * _BATCH, torch.float32, cpu)
    tokenizer, mark = AutoTokenizer.from_pretrained(folder), int(checkpoint.config["image_token_id"])
    prompt, end = prompt_of(tokenizer, mark), tokenizer.convert_tokens_to_ids(END)
    answers: list[str] = []
    for start in range(0, len(pictures), _BATCH):
        batch = pictures[start : start + _BATCH]
        units = [
            picture_unit(str(n), each.pixels[None], encoder.facts.takes, Colours(MEAN, DEVIATION))
            for n, each in enumerate(batch)
        ]
        rows = [torch.from_numpy(np.array(each)) for each in encoder.encode(units)]
        said = [[token] for token in _begin(decoder, prompt, prompt.index(mark), rows)]
        for step in range(_TOKENS - 1):
            requests = tuple(StepRequest(str(n), len(prompt) + step, 1, _GREEDY) for n in range(len(batch)))
            output = decoder.step(StepBatch(requests), torch.tensor([tokens[-1] for tokens in said]))
            for tokens, sample in zip(said, output.samples, strict=True):
                tokens.append(sample.token_id)
        for n in range(len(batch)):
            decoder.free(str(n))
        answers += [tokenizer.decode(tokens[: tokens.index(end)] if end in tokens else tokens) for tokens in said]
    return answers


def _begin(decoder: StageEngine, prompt: list[int], first: int, rows: Sequence[torch.Tensor]) -> list[int]:
    """The first token behind each prompt."""
    given = GivenRows(tuple(EmbeddedRows(str(n), first, each) for n, each in enumerate(rows)))
    requests = tuple(StepRequest(str(n), 0, len(prompt), _GREEDY) for n in range(len(rows)))
    output = decoder.step(StepBatch(requests, given), torch.tensor(prompt * len(rows)))
    return [sample.token_id for sample in output.samples]
