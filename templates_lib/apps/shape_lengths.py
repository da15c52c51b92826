"""Mean lengths of a workload shape, as request types of an any-to-any model have them.

Of a shape in which some requests have images and others none, as a window of real traffic is, those with images count:
the others are of another type.
"""

from dataclasses import replace

import numpy as np

from templates_lib.graphs.request_type import Lengths
from templates_lib.load.workload import WorkloadShape

NEEDS: dict[str, str] = {
    "images": "images",
    "tokens_per_image": "image_tokens",
    "clips": "clips",
    "clip_s": "audio_s",
    "speech_s": "speech_s",
    "image_pixels": "image_pixels",
    "steps": "steps",
}
"""Field of `Lengths` → column of a shape that it is made of."""


def lengths_of(shape: WorkloadShape, lengths: Lengths) -> Lengths:
    """Take what the shape has columns of from it, and the rest from `lengths`. Raises ValueError for a column that is 0
    throughout: no request has any, and the type is another one."""
    shape = _with_images(shape)
    mean = {name: float(column.mean()) for name, column in shape.units.items()}
    if none := [name for name, value in mean.items() if value <= 0]:
        raise ValueError(f"workload shape {shape.id!r}: no request has any of {', '.join(none)}; take the column out")
    found = {field: mean[column] for field, column in NEEDS.items() if column in mean}
    for each, items in (("tokens_per_image", "images"), ("clip_s", "clips")):
        if each in found:
            found[each] /= found.get(items, getattr(lengths, items))
    return replace(lengths, prompt_tokens=shape.mean_prompt_tokens, output_tokens=shape.mean_output_tokens, **found)


def _with_images(shape: WorkloadShape) -> WorkloadShape:
    brings = shape.units.get("images", np.ones(1)) > 0
    if brings.all() or not brings.any():
        return shape
    units = {name: column[brings] for name, column in shape.units.items()}
    return WorkloadShape(shape.id, shape.prompt_tokens[brings], shape.output_tokens[brings], shape.source, units)
