"""What an encoder's pixels are normalised by, as its preprocessor_config.json says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from templates_lib.models.config_fields import Fields, UnsupportedModelError

WHITE = 255.0
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Colours:
    """Mean and standard deviation of each channel, of values from 0 to 1."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


def colours_of(config: Mapping[str, Any]) -> Colours:
    """By a preprocessor_config.json. Raises UnsupportedModelError for other scales than 1/255 and senseless numbers."""
    fields = Fields.of(dict(config), "")
    if abs(fields.number("rescale_factor", 0.0, 1.0) * WHITE - 1) > 1e-6:
        raise UnsupportedModelError("rescale_factor", "only 1/255 is known")
    mean, deviation = (_triple(fields, key, low) for key, low in (("image_mean", 0.0), ("image_std", 1e-3)))
    return Colours(mean, deviation)


def _triple(fields: Fields, key: str, low: float) -> tuple[float, float, float]:
    value = fields.raw.get(key)
    if not isinstance(value, list | tuple) or len(value) != _CHANNELS:
        raise UnsupportedModelError(key, f"must be {_CHANNELS} numbers")
    first, second, third = (Fields({key: each}).number(key, low, 10.0) for each in value)
    return first, second, third
