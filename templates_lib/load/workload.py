"""The lengths of requests: joint prompt and output lengths of one kind of traffic."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

UNIT_COLUMNS = ("images", "image_tokens", "clips", "audio_s", "speech_s", "image_pixels", "steps")
"""What else requests of any-to-any models bring and want, each in all of one request: images and the tokens that they
are encoded as, clips and their seconds, seconds of a spoken answer, pixels of an image that is made and its denoising
steps."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadShape:
    """Equally likely (prompt, output) length pairs; what planning, load generation and simulation draw from.

    Raises ValueError when the arrays are empty, differ in length, or hold a length below 1 or less than none of a unit.
    """

    id: str
    prompt_tokens: NDArray[np.int32]
    """(n,) ≥ 1"""
    output_tokens: NDArray[np.int32]
    """(n,) ≥ 1"""
    source: str = ""
    units: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """(n,) ≥ 0 each, by name (`UNIT_COLUMNS`), as far as they are known."""

    def __post_init__(self) -> None:
        prompt, output = self.prompt_tokens, self.output_tokens
        if prompt.ndim != 1 or prompt.shape != output.shape or len(prompt) == 0:
            raise ValueError(
                f"workload shape {self.id!r}: prompt and output lengths must be two equally long, non-empty "
                f"columns, not {prompt.shape} and {output.shape}"
            )
        if prompt.min() < 1 or output.min() < 1:
            raise ValueError(f"workload shape {self.id!r}: every prompt and output has at least one token")
        for name, column in self.units.items():
            if name not in UNIT_COLUMNS or column.shape != prompt.shape or not (column >= 0).all():
                known = ", ".join(UNIT_COLUMNS)
                raise ValueError(
                    f"workload shape {self.id!r}: column {name!r} is none of {known}, or not {len(prompt)} numbers of "
                    "at least 0"
                )

    @property
    def mean_prompt_tokens(self) -> float:
        return float(self.prompt_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        return float(self.output_tokens.mean())

    @property
    def mean_tokens(self) -> tuple[float, float]:
        """Mean lengths of a prompt and of an answer."""
        return self.mean_prompt_tokens, self.mean_output_tokens

    @property
    def prefill_context(self) -> float:
        """Mean number of earlier tokens that a prompt token attends to: E[P(P − 1)] / 2E[P]."""
        prompt = self.prompt_tokens.astype(np.float64)
        return float((prompt * (prompt - 1)).sum() / (2 * prompt.sum()))

    @property
    def decode_context(self) -> float:
        """Mean tokens in the KV cache over all output tokens: E[P·O + O(O − 1)/2] / E[O]."""
        prompt, output = self.prompt_tokens.astype(np.float64), self.output_tokens.astype(np.float64)
        return float((prompt * output + output * (output - 1) / 2).sum() / output.sum())

    @property
    def fingerprint(self) -> str:
        """Content hash of the lengths (64 bits, hex): it changes when, and only when, what is certified changes."""
        content = self.prompt_tokens.astype("<i4").tobytes() + self.output_tokens.astype("<i4").tobytes()
        for name, column in sorted(self.units.items()):
            content += name.encode() + column.astype("<f8").tobytes()
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    def prompt_percentile(self, percentile: float) -> float:
        return float(np.percentile(self.prompt_tokens, percentile))


@dataclass(frozen=True, slots=True)
class PromptSplit:
    """One kind of traffic cut in two where its objective stops to hold (`Slo.max_prompt_tokens`)."""

    short: WorkloadShape | None
    long: WorkloadShape | None
    long_share: float
    """Share of the requests that are long."""


def split_prompts(shape: WorkloadShape, max_prompt_tokens: int) -> PromptSplit:
    """Requests up to `max_prompt_tokens` (0: no limit) and longer ones, each a shape of its own; None where empty."""
    is_long = shape.prompt_tokens > max_prompt_tokens if max_prompt_tokens else np.zeros(len(shape.prompt_tokens), bool)

    def part(keep: NDArray[np.bool_], suffix: str) -> WorkloadShape | None:
        if not keep.any():
            return None
        name = f"{shape.id}{suffix}"
        units = {unit: column[keep] for unit, column in shape.units.items()}
        return WorkloadShape(name, shape.prompt_tokens[keep], shape.output_tokens[keep], shape.source, units)

    if not is_long.any():
        return PromptSplit(shape, None, 0.0)
    short = part(~is_long, _up_to(max_prompt_tokens))
    return PromptSplit(short, part(is_long, f"/over-{max_prompt_tokens}"), float(is_long.mean()))


def joined_prompts(short: WorkloadShape, longer: WorkloadShape, max_prompt_tokens: int) -> WorkloadShape:
    """Return the shape that `split_prompts` made two of: the same requests, the short ones first."""
    units = {name: np.concatenate([column, longer.units[name]]) for name, column in short.units.items()}
    prompt = np.concatenate([short.prompt_tokens, longer.prompt_tokens])
    output = np.concatenate([short.output_tokens, longer.output_tokens])
    return WorkloadShape(short.id.removesuffix(_up_to(max_prompt_tokens)), prompt, output, short.source, units)


def _up_to(max_prompt_tokens: int) -> str:
    return f"/up-to-{max_prompt_tokens}"
