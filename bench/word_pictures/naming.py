"""Names what pictures show, by a small network that has seen drawn ones alone."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from bench.picture_reader.drawing import COLOURS, SHAPES, Drawn

_STEPS, _BATCH, _RATE = 700, 64, 2e-3
_COLOURS = sorted(COLOURS)


class Namer(nn.Module):
    """(items, 3, side, side) pixels from -1 to 1 → scores of colours, then of shapes."""

    def __init__(self) -> None:
        super().__init__()
        widths, layers, before = (16, 32, 64, 64), list[nn.Module](), 3
        for width in widths:
            layers += [nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        self.seen = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(len(_COLOURS) + len(SHAPES)))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.seen(pixels)
        return found

    @torch.inference_mode()
    def names(self, pixels: torch.Tensor) -> list[tuple[str, str]]:
        """Colour and shape of each picture."""
        self.eval()
        scores = self(pixels)
        colours = scores[:, : len(_COLOURS)].argmax(1).tolist()
        shapes = scores[:, len(_COLOURS) :].argmax(1).tolist()
        return [(_COLOURS[c], SHAPES[s]) for c, s in zip(colours, shapes, strict=True)]


def trained_namer(pixels: torch.Tensor, drawn: Sequence[Drawn], seed: int) -> Namer:
    torch.manual_seed(seed)
    namer = Namer()
    namer(pixels[:2])  # its last layer learns its width
    colours = torch.tensor([_COLOURS.index(each.colour) for each in drawn])
    shapes = torch.tensor([SHAPES.index(each.shape) for each in drawn])
    optimiser = torch.optim.AdamW(namer.parameters(), lr=_RATE)
    for _ in range(_STEPS):
        chosen = torch.randint(len(pixels), (_BATCH,))
        scores = namer(pixels[chosen])
        loss = functional.cross_entropy(scores[:, : len(_COLOURS)], colours[chosen])
        loss = loss + functional.cross_entropy(scores[:, len(_COLOURS) :], shapes[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return namer
