"""What pictures that arrive at a gateway cost the requests for text beside them.

    python -m bench.gateway_media [--seconds 10] [--rounds 3]

Real processes on loopback: a gateway whose table has a model that sees, an echo scheduler, and hey. Text of 2 KB comes
at 100 requests/s, alone and while 20 pictures/s of 4 MB arrive as `data:` URLs, in turns. The gateway reads the body,
decodes the base64, and finds size and tokens in the header; no instance encodes yet, so pictures get a 503 after
that. Exits with 1 where the 99th percentile of text grows by more than 10 ms (median of the rounds).
"""

import argparse
import base64
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.gateway import KEY, PROMPT_BYTES, ROOT, gateway
from bench.load import Load, fixed_rate, missing_tools
from control.gateway.published import MediaTerms
from templates_lib.graphs.catalogue import graph_facts

BAR_MS = 10.0
TEXTS_PER_S, PICTURES_PER_S = 100.0, 20.0
PICTURE_BYTES = 4_000_000
SIZE = (1600, 1200)


def picture() -> bytes:
    """A PNG of that size by its header, and as many bytes."""
    width, height = SIZE
    head = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + width.to_bytes(4) + height.to_bytes(4)
    pixels = os.urandom(PICTURE_BYTES)
    return head + bytes([8, 2, 0, 0, 0]) + bytes(4) + len(pixels).to_bytes(4) + b"IDAT" + pixels + bytes(8) + b"IEND"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if missing_tools():
        print(f"compiled load generators are missing: apt-get install {' '.join(missing_tools())}")
        return 1
    text = (ROOT / "README.md").read_text()[:PROMPT_BYTES]
    url = "data:image/png;base64," + base64.b64encode(picture()).decode()
    seen = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    terms = MediaTerms(graph_facts("qwen2.5-vl-7b")["config"])
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    with (
        tempfile.TemporaryDirectory(prefix="medley-bench-") as name,
        gateway(Path(name), "--tokens-per-step", "16", media=terms) as address,
    ):
        texts = Load(f"{address}/v1/completions", {"model": "echo", "prompt": text, "max_tokens": 16}, KEY)
        asked = {"model": "echo", "messages": [{"role": "user", "content": seen}], "max_tokens": 16}
        pictures = Load(f"{address}/v1/chat/completions", asked, KEY)
        grown = [measured(texts, pictures, given.seconds) for _ in range(given.rounds)]
    median = statistics.median(grown)
    print(f"p99 of text grows by {median:.1f} ms, bar {BAR_MS:.0f} ms {'met' if median <= BAR_MS else 'MISSED'}")
    return int(median > BAR_MS)


def measured(texts: Load, pictures: Load, seconds: float) -> float:
    """By how many ms the 99th percentile of text grows while pictures arrive."""
    alone = fixed_rate(texts, TEXTS_PER_S, seconds)
    with ThreadPoolExecutor(1) as thread:
        arriving = thread.submit(fixed_rate, pictures, PICTURES_PER_S, seconds + 2, "503")
        beside = fixed_rate(texts, TEXTS_PER_S, seconds)
        came = arriving.result()
    print(
        f"text {alone[0]:.0f}/s: median {alone[1]:.1f} ms, p99 {alone[2]:.1f} ms; beside {came[0]:.0f} pictures/s "
        f"(median {came[1]:.0f} ms): median {beside[1]:.1f} ms, p99 {beside[2]:.1f} ms"
    )
    return beside[2] - alone[2]


if __name__ == "__main__":
    sys.exit(main())
