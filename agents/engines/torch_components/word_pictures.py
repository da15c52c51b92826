"""Pictures of a few words: Qwen-Image's denoiser and decoder, with a table of words where that has a language model.

A folder has config.json with `model_type` `word_pictures`, `words` (their rows of the table follow the first, which
stands for no text), `transformer` and `vae` as Qwen-Image's folders have them, and how pictures are made: `sample_size`
(pixels), `steps`, `guidance`, `shift`. `python -m bench.word_pictures` trains one."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence

from agents.engines.components.stepped import Asked, Piece, SteppedAnswer, SteppedFacts
from agents.engines.errors import BadBatchError
from agents.engines.torch_components.loading import Limits, load_component
from agents.engines.torch_components.picture_decoder import PictureDecoder, read_picture_decoder
from agents.engines.torch_components.picture_denoiser import PictureDenoiser, read_picture_denoiser
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.messages.bounds import MAX_PIECE_BYTES
from agents.messages.component_work import AskedPicture
from agents.weights.checkpoint import Checkpoint
from templates_lib.models.config_fields import Fields, UnsupportedModelError

FAMILY, COMPONENT = "word_pictures", "picture"
_MOST_WORDS = 4096
_WORD = re.compile(r"[^\W\d_]+")
_MOST_PIXELS = MAX_PIECE_BYTES // 3
"""Of a picture: a PNG of noise is as long as its colours, a byte each."""
_MOST_ASKED = 64
"""Words of a request that are read."""


@dataclass(frozen=True, slots=True, eq=False)
class WordPictures:
    words: dict[str, int]
    """Word → its row of `table`."""
    table: torch.Tensor
    denoiser: PictureDenoiser
    decoder: PictureDecoder
    side: int
    """Pixels, where a request says none."""
    steps: int
    guidance: float
    shift: float
    """By how much later half of the noise is gone than by even steps (Esser et al. 2024, section 5.3.2)."""
    hidden_size: int
    ffn_width: int

    @property
    def pixels(self) -> int:
        """Count the pixels of a row's side."""
        return self.denoiser.patch * self.decoder.times

    def rows_of(self, text: str) -> list[int]:
        """Rows of the words of a text that the model knows, in order. Raises BadBatchError where it knows none."""
        found = [self.words[word] for word in _WORD.findall(text.lower()) if word in self.words]
        if not found:
            raise BadBatchError(f"the model knows none of these words; it knows {', '.join(self.words)}")
        return found[:_MOST_ASKED]

    def sigmas(self, steps: int) -> list[float]:
        """Shares of noise before each step and after the last (`FlowMatchEulerDiscreteScheduler`)."""
        even = [1.0 - n / steps for n in range(steps)]
        return [self.shift * each / (1 + (self.shift - 1) * each) for each in even] + [0.0]


def read_word_pictures(fields: Fields, reader: LayerReader) -> WordPictures:
    words = fields.texts("words", _MOST_WORDS)
    if not words or len(set(words)) != len(words):
        raise UnsupportedModelError("words", "is a list of words, each once")
    transformer = fields.part("transformer")
    width = transformer.integer("joint_attention_dim", low=1, high=1 << 16)
    denoiser = read_picture_denoiser(transformer, reader.under("transformer.").tensor)
    decoder = read_picture_decoder(fields.part("vae"), reader.under("vae.").tensor)
    if len(denoiser.output.bias) != denoiser.patch**2 * decoder.channels:
        raise UnsupportedModelError("transformer.out_channels", f"is not vae.z_dim ({decoder.channels})")
    hidden = len(denoiser.from_latents.bias)
    return WordPictures(
        {word: row for row, word in enumerate(words, 1)},
        reader.tensor("words.weight", (len(words) + 1, width)),
        denoiser,
        decoder,
        fields.integer("sample_size", low=1, high=4096),
        fields.integer("steps", low=1, high=1000),
        fields.number("guidance", 0.0, 100.0),
        fields.number("shift", 0.01, 100.0),
        hidden_size=hidden,
        ffn_width=4 * hidden,
    )


@dataclass(slots=True, eq=False)
class _Picture:
    text: torch.Tensor
    """(words, width)"""
    latents: torch.Tensor
    """(rows, channels) on their way from noise."""
    size: tuple[int, int]
    """Rows of latents, down and across."""
    sigmas: list[float]
    guidance: float
    step: int = 0

    @property
    def is_done(self) -> bool:
        return self.step + 1 == len(self.sigmas)

    @property
    def passes(self) -> int:
        """Rows of a step: made once with the text, and once without where that is to be gone away from."""
        return len(self.latents) * (2 if self.guidance > 1 else 1)


def load_word_pictures(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, limits: Limits
) -> "WordPicturesEngine":
    """Raises what `load_component` does."""
    readers = {(FAMILY, COMPONENT): read_word_pictures}
    model, facts = load_component(checkpoint, COMPONENT, readers, dtype, device, limits, _decoded_values)
    return WordPicturesEngine(SteppedFacts(**asdict(facts), is_heard=False), model)


def _decoded_values(model: WordPictures) -> int:
    """Count the numbers that decoding takes for each row of a batch: one picture at a time is decoded, of half as many
    rows as a batch may have at most."""
    return model.pixels**2 * model.decoder.values_per_pixel // 2


class WordPicturesEngine:
    """A SteppedEngine of torch's operations: pictures of one size take their denoising steps together, wherever each
    of them is on its way."""

    def __init__(self, facts: SteppedFacts, model: WordPictures) -> None:
        self.facts = facts
        self._model: WordPictures | None = model

    def example(self, units: float, item_rows: float = 0.0) -> Asked:
        model = self._there()
        side = max(1, round(item_rows**0.5)) * model.pixels
        return AskedPicture(next(iter(model.words)), side, side, seed=0, steps=max(1, round(units)))

    def begin(self, asked: Asked, skip: int = 0) -> SteppedAnswer:
        model = self._there()
        if not isinstance(asked, AskedPicture):
            raise BadBatchError(f"{self.facts.component} draws: it does not speak")
        if skip:
            raise BadBatchError("the answer is one picture, which is there")
        width, height = (side or model.side for side in (asked.width, asked.height))
        if width % model.pixels or height % model.pixels:
            raise BadBatchError(f"sides are multiples of {model.pixels} pixels, not {width}x{height}")
        if width * height > _MOST_PIXELS:
            raise BadBatchError(f"{width}x{height} has {width * height} pixels; a picture has up to {_MOST_PIXELS}")
        size = height // model.pixels, width // model.pixels
        channels = model.denoiser.from_latents.weight.shape[1]
        if 2 * size[0] * size[1] > self.facts.most_rows:
            raise BadBatchError(f"{width}x{height} has {size[0] * size[1]} rows, more than {self.facts.most_rows // 2}")
        noise = torch.randn(size[0] * size[1], channels, generator=torch.Generator().manual_seed(asked.seed))
        guidance = model.guidance if asked.guidance is None else asked.guidance
        rows = torch.tensor(model.rows_of(asked.text), device=model.table.device)
        sigmas = model.sigmas(asked.steps or model.steps)
        return _Picture(model.table[rows], noise.to(model.table), size, sigmas, guidance)

    @torch.inference_mode()
    def step(self, answers: Sequence[SteppedAnswer]) -> list[Piece | None]:
        model = self._there()
        pictures = [each for each in answers if isinstance(each, _Picture) and not each.is_done]
        if not 1 <= len(answers) <= self.facts.most_units or len(set(map(id, pictures))) != len(answers):
            raise BadBatchError(f"a step has 1 to {self.facts.most_units} pictures that are not done, each once")
        for batch in self._batches(pictures):
            self._denoise(model, batch)
        return [_piece(model, each) if each.is_done else None for each in pictures]

    def close(self) -> None:
        self._model = None

    def _there(self) -> WordPictures:
        if self._model is None:
            raise BadBatchError("the engine is closed")
        return self._model

    def _batches(self, pictures: Sequence[_Picture]) -> Iterator[list[_Picture]]:
        """Pictures of one size, no more rows than a batch may have."""
        for _, group in groupby(sorted(pictures, key=lambda each: each.size), lambda each: each.size):
            batch, rows = list[_Picture](), 0
            for picture in group:
                if batch and rows + picture.passes > self.facts.most_rows:
                    yield batch
                    batch, rows = [], 0
                batch.append(picture)
                rows += picture.passes
            yield batch

    def _denoise(self, model: WordPictures, batch: Sequence[_Picture]) -> None:
        """A step of Euler's rule for each."""
        guided = [picture for picture in batch if picture.guidance > 1]
        texts = [picture.text for picture in batch] + [model.table[:1]] * len(guided)
        among = [*batch, *guided]
        lengths = torch.tensor([len(text) for text in texts], device=model.table.device)
        padded = pad_sequence(texts, batch_first=True)
        is_text = torch.arange(padded.shape[1], device=lengths.device) < lengths[:, None]
        sigma = torch.tensor([each.sigmas[each.step] for each in among], device=lengths.device)
        latents = torch.stack([each.latents for each in among])
        made = model.denoiser(latents, sigma, padded, is_text, batch[0].size[1])
        without = dict(zip(map(id, guided), made[len(batch) :], strict=True))
        for picture, velocity in zip(batch, made, strict=False):
            if picture.guidance > 1:
                velocity = _guided(velocity, without[id(picture)], picture.guidance)  # noqa: PLW2901
            span = picture.sigmas[picture.step + 1] - picture.sigmas[picture.step]
            picture.latents = picture.latents + span * velocity
            picture.step += 1


def _guided(velocity: torch.Tensor, without: torch.Tensor, guidance: float) -> torch.Tensor:
    """Away from what no text asks for, as long as before (Ho and Salimans 2022, and `pipeline_qwenimage.py`)."""
    further = without + guidance * (velocity - without)
    ratio: torch.Tensor = _lengths(velocity) / _lengths(further)
    return further * ratio


def _lengths(rows: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return found


def unpacked(rows: torch.Tensor, size: tuple[int, int], patch: int) -> torch.Tensor:
    """(items, rows, patch² · channels), as `pipeline_qwenimage.py` packs them → (items, channels, height, width)."""
    squares = rows.reshape(len(rows), *size, -1, patch, patch)  # (items, down, across, channels, patch, patch)
    down, across = (patch * side for side in size)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(len(rows), -1, down, across)


def _piece(model: WordPictures, picture: _Picture) -> Piece:
    pixels = model.decoder(unpacked(picture.latents[None], picture.size, model.denoiser.patch))[0]
    values = ((pixels.float() + 1) * 127.5).round().clamp(0, 255).to("cpu", torch.uint8)
    file = io.BytesIO()
    Image.fromarray(values.permute(1, 2, 0).contiguous().numpy(), "RGB").save(file, "PNG")
    return Piece(file.getvalue(), float(len(picture.sigmas) - 1))
