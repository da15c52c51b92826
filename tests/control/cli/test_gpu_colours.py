"""Pictures and the console draw a GPU in one colour, and every GPU of the catalogue in its own."""

import re
from pathlib import Path

from control.cli.gpu_colours import GPU_COLOURS, OTHER
from templates_lib.values.hardware import load_gpus

WEB = Path(__file__).parents[3] / "web" / "src"


def test_a_gpu_has_one_colour_everywhere() -> None:
    known = re.search(r"KNOWN[^{]*\{([^}]*)\}", (WEB / "components" / "gpu.tsx").read_text())
    assert known
    light = (WEB / "style" / "tokens.css").read_text().split('data-theme="dark"')[0]
    colour_of = dict(re.findall(r"--gpu-(\d+): (#[0-9a-f]{6})", light))
    shown = {name.strip('"'): colour_of[place] for name, place in re.findall(r'("?[\w-]+"?): (\d+)', known[1])}
    assert shown == GPU_COLOURS
    assert GPU_COLOURS.keys() == load_gpus().keys(), "the catalogue's"
    assert len({*GPU_COLOURS.values(), OTHER}) == len(GPU_COLOURS) + 1
