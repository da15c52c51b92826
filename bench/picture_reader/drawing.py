"""Pictures of one shape each, drawn by a seed, and what they are to be called."""

import math
import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

SIDE = 112
"""Pixels."""
COLOURS = {
    "red": (214, 40, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 210),
    "yellow": (240, 205, 30),
    "black": (20, 20, 20),
}
SHAPES = ("circle", "square", "triangle", "star", "cross")
_FINER = 4
"""Pictures are drawn larger, and made smaller: edges are smooth then."""


@dataclass(frozen=True)
class Drawn:
    pixels: NDArray[np.uint8]
    """(SIDE, SIDE, 3)"""
    colour: str
    shape: str

    @property
    def name(self) -> str:
        return f"A {self.colour} {self.shape}."

    def is_named_by(self, answer: str) -> bool:
        """Tell whether an answer says what it is, and nothing else that it could be."""
        words = set(answer.lower().replace(".", " ").replace(",", " ").split())
        return words & COLOURS.keys() == {self.colour} and words & set(SHAPES) == {self.shape}


def drawn(seed: int) -> Drawn:
    """A shape of some colour, size, place and turn, on a pale ground."""
    draw = random.Random(seed)
    colour, shape = draw.choice(sorted(COLOURS)), draw.choice(SHAPES)
    size = SIDE * _FINER
    ground = tuple(draw.randint(215, 255) for _ in range(3))
    image = Image.new("RGB", (size, size), ground)
    radius = draw.uniform(0.2, 0.42) * size
    centre = [draw.uniform(radius, size - radius) for _ in range(2)]
    shade = tuple(min(255, max(0, each + draw.randint(-18, 18))) for each in COLOURS[colour])
    _paint(ImageDraw.Draw(image), shape, centre, radius, math.radians(draw.uniform(-15, 15)), shade)
    small = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return Drawn(np.asarray(small, np.uint8), colour, shape)


def _paint(
    on: ImageDraw.ImageDraw, shape: str, centre: list[float], radius: float, turn: float, fill: tuple[int, ...]
) -> None:
    def around(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Places by angle (turns, 0 is up) and share of the radius."""
        angles = [(2 * math.pi * angle - math.pi / 2 + turn, share * radius) for angle, share in places]
        return [(centre[0] + math.cos(a) * r, centre[1] + math.sin(a) * r) for a, r in angles]

    match shape:
        case "circle":
            on.ellipse([*(c - radius for c in centre), *(c + radius for c in centre)], fill=fill)
        case "square":
            on.polygon(around([(0.125 + n / 4, 1.0) for n in range(4)]), fill=fill)
        case "triangle":
            on.polygon(around([(n / 3, 1.0) for n in range(3)]), fill=fill)
        case "star":
            on.polygon(around([(n / 10, 1.0 if n % 2 == 0 else 0.4) for n in range(10)]), fill=fill)
        case _:
            for first in (0.0, 0.25):
                bar = [(first + 0.045, 1.0), (first + 0.455, 1.0), (first + 0.545, 1.0), (first - 0.045, 1.0)]
                on.polygon(around(bar), fill=fill)
