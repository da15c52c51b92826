"""CUDA: what an engine's environment was built for, and the driver that machines come with."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class CudaBuild:
    """What a build of an engine asks of a GPU and its driver."""

    release: str
    """CUDA's, such as `13.0`."""
    least_driver: int
    """Major release of NVIDIA's driver."""
    least_capability: float
    """Compute capability of the oldest GPU that it has kernels for."""
    source: str


TORCH_BUILD = CudaBuild(
    "13.0",
    580,
    7.5,
    "wheels of torch 2.11 to 2.13 on PyPI: pytorch RELEASE.md, CUDA support matrix; driver: NVIDIA CUDA Compatibility, "
    "minor version compatibility, table 1",
)


@dataclass(frozen=True, slots=True)
class ImageDriver:
    """Driver and compiler of the image that SkyPilot starts machines of a cloud from, unless another one is chosen."""

    cloud: str
    least_capability: float
    """Compute capability of the oldest GPU that gets this image."""
    driver: int
    """Major release of NVIDIA's driver."""
    compiler: str
    """Of C; empty: not known."""
    source: str


def image_driver(cloud: str, capability: float) -> ImageDriver | None:
    """Return the driver of machines with GPUs of this compute capability (`data/hardware/image_drivers.csv`); None: not
    known before one is rented."""
    fitting = [each for each in _image_drivers() if each.cloud == cloud and each.least_capability <= capability]
    return max(fitting, key=lambda each: each.least_capability, default=None)


@cache
def _image_drivers() -> tuple[ImageDriver, ...]:
    text = files("templates_lib").joinpath("data/hardware/image_drivers.csv").read_text(encoding="utf-8")
    return tuple(
        ImageDriver(row["cloud"], float(row["least_capability"]), int(row["driver"]), row["compiler"], row["source"])
        for row in csv.DictReader(text.splitlines())
    )
