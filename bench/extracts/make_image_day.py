"""Make bench/modserve/azure_lmm_day.csv: traffic of a day with a burst of pictures, from
../shared/data/multimodal/azure_lmm_2024_week_digitised.csv, which was read off published plots (Azure LMM inference
trace 2025, CC-BY 4.0). It is not the trace.

    python bench/extracts/make_image_day.py [FILE]

Each bin of 10 minutes has the lowest and the highest minute; their middle is taken. Pictures of a request follow from
the tokens of requests with pictures (1,105 a picture, and as much text as a request without has at least); the plot's
number of images is of squares, and cannot be undone without their distribution.
"""

import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "bench" / "modserve" / "azure_lmm_day.csv"
DAY = "2024-10-18"
IMAGE_TOKENS, TEXT_TOKENS = 1105.0, 500.0


def main(source: Path) -> None:
    with source.open() as text:
        rows = list(csv.DictReader(line for line in text if not line.startswith("#")))
    lines = ["t_s,text_requests_per_s,image_requests_per_s,images_per_request"]
    day = [row for row in rows if row["utc"].startswith(DAY)]
    for number, row in enumerate(day):
        text_s, image_s = (_middle(row, f"requests_{kind}") / 60 for kind in ("text", "image"))
        tokens = _middle(row, "input_tokens_image") / 60 / image_s
        images = max((tokens - TEXT_TOKENS) / IMAGE_TOKENS, 1.0)
        lines.append(f"{600 * number},{text_s:.3f},{image_s:.3f},{images:.2f}")
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{len(day)} bins of {DAY}")


def _middle(row: dict[str, str], name: str) -> float:
    return (float(row[f"{name}_low"]) + float(row[f"{name}_high"])) / 2


if __name__ == "__main__":
    shared = ROOT.parent / "shared" / "data" / "multimodal" / "azure_lmm_2024_week_digitised.csv"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else shared)
