"""Make templates_lib/data/workloads from the public traces in ../shared/data/traces and, beside it, multimodal, and
print what was lost.

    python bench/extracts/make_workloads.py [TRACES_FOLDER]

The output is the same on every run. An extract is stratified over a serpentine order of the joint lengths, so that both
marginals and their dependence survive in 2,000 pairs.
"""

import csv
import gzip
import io
import sys
from collections import defaultdict
from dataclasses import astuple
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.resampled import resampled
from templates_lib.load.rate_files import read_rate_series
from templates_lib.load.rate_series import RateSeries
from templates_lib.load.shapes import Catalogue, RateFacts, ShapeFacts, Statistics
from templates_lib.load.traces import read_trace
from templates_lib.load.workload import WorkloadShape

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "templates_lib" / "data" / "workloads"
PAIRS = 2000
TRIES = 1000
SEED = 20261121
SERVEGEN = "alibaba/ServeGen @f891d1189eb32b3868dfc443800c4150548c282a (Alibaba Model Studio)"
AZURE = "Azure/AzurePublicDataset data/AzureLLMInferenceTrace_{}.csv @b469a113cedca53ddc3bdea71a143dc4b7d8700c"
AZURE_LMM = (
    "Azure/AzurePublicDataset data/AzureLMMInferenceTrace_multimodal.csv.gz (Azure LMM inference trace 2025, of "
    "ModServe), rows as ChuDinhKlopp/inference-bench @ce3f57f has them"
)
WINDOW = (
    "every row of a window of consecutive rows; images are the square root of the released NumImages, which is their "
    "square; text and image tokens are told apart by the public rule for images (templates_lib/load/azure_lmm.py)"
)
WINDOWS = (
    # id, file of ../shared/data/multimodal, date
    ("azure-lmm-2024-10-16", "azure_multimodal_bursty_2000.csv", "2024-10-16"),
    ("azure-lmm-2024-10-21", "azure_multimodal_bursty_1055.csv", "2024-10-21"),
)
SYSTEMATIC = (
    f"one pair from each of {PAIRS} equal blocks of the trace in a serpentine order of joint (prompt, output) lengths; "
    f"of {TRIES} seeded samples the one whose statistics are nearest to the whole trace's"
)
TRACES = (
    # id, file, source, licence, date
    ("azure-code", "azure_llm_2023_code.csv.gz", AZURE.format("code"), "CC-BY-4.0", "2023-11-16"),
    ("azure-conversation", "azure_llm_2023_conv.csv.gz", AZURE.format("conv"), "CC-BY-4.0", "2023-11-16"),
    (
        "mooncake-conversation",
        "mooncake_conversation.csv.gz",
        "kvcache-ai/Mooncake FAST25-release traces, conversation",
        "Apache-2.0",
        "2025",
    ),
    (
        "sharegpt",
        "helix_sharegpt_lengths.csv.gz",
        "Thesys-lab/Helix-ASPLOS25 simulator/trace_generator/length_data @148b733080c0c5d3ddca0fe3c985b2e52a7f7b35",
        "Apache-2.0",
        "2025",
    ),
    (
        "arxiv-summarization",
        "vidur_arxiv_summarization_lengths.csv.gz",
        "microsoft/vidur data/processed_traces @7d47513363ec447a741ac5e47241580b47724fbf",
        "MIT",
        "2024",
    ),
)


def statistics(shape: WorkloadShape) -> Statistics:
    values = (
        shape.mean_prompt_tokens,
        shape.mean_output_tokens,
        shape.prompt_percentile(99),
        float(np.percentile(shape.output_tokens, 99)),
        shape.prefill_context,
        shape.decode_context,
    )
    return Statistics(*(round(v, 3) for v in values))


def largest_error(full: Statistics, part: Statistics) -> float:
    pairs = zip(astuple(full), astuple(part), strict=True)
    return float(max(abs(kept / whole - 1) for whole, kept in pairs))


def extract(shape: WorkloadShape) -> WorkloadShape:
    """`PAIRS` of the shape's pairs whose statistics are nearest to its own."""
    strata = 100
    rank = np.argsort(np.argsort(shape.prompt_tokens, kind="stable"), kind="stable")
    stratum = rank * strata // len(rank)
    # Outputs rise in even strata and fall in odd ones, so that neighbours in the order are alike in both lengths.
    order = np.lexsort((np.where(stratum % 2, -1, 1) * shape.output_tokens, stratum))
    full = statistics(shape)
    draw = np.random.default_rng(SEED)

    def sample() -> WorkloadShape:
        pick = order[((np.arange(PAIRS) + draw.random(PAIRS)) * len(order) / PAIRS).astype(np.int64)]
        units = {name: column[pick] for name, column in shape.units.items()}
        return WorkloadShape(shape.id, shape.prompt_tokens[pick], shape.output_tokens[pick], shape.source, units)

    return min((sample() for _ in range(TRIES)), key=lambda s: largest_error(full, statistics(s)))


def servegen_shape(folder: Path) -> WorkloadShape:
    """m-large: independent draws from its two histograms, scaled to the rate-weighted means of its clients."""
    prompt, output = _servegen_columns(
        folder, "m-large", {"input_tokens": "mean_input", "output_tokens": "mean_output"}
    )
    return WorkloadShape("servegen-m-large", prompt, output, SERVEGEN)


def servegen_image_shape(folder: Path) -> WorkloadShape:
    """mm-image, the same of its four histograms: text, answers, images of a request, and tokens of one image, which all
    images of a request have alike."""
    text, output, images, tokens = _servegen_columns(
        folder,
        "mm-image",
        {
            "text_tokens": "mean_input",
            "output_tokens": "mean_output",
            "image_count": "mean_image_count",
            "image_tokens": "mean_image_tokens",
        },
    )
    units = {"images": images.astype(np.float64), "image_tokens": (images * tokens).astype(np.float64)}
    return WorkloadShape("servegen-mm-image", text, output, SERVEGEN, units)


def _servegen_columns(folder: Path, model: str, means: dict[str, str]) -> list[NDArray[np.int32]]:
    """Independent draws from a model's histograms. `means`: field → column of the clients' means that it is scaled to.

    More draws than are shipped: the extract is then taken from them as from any trace."""
    bins: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    with (folder / "servegen_length_histograms.csv").open() as text:
        for row in csv.DictReader(text):
            if row["model"] == model:
                bins[row["field"]].append((float(row["bin_lo"]), float(row["bin_hi"]), float(row["probability"])))
    draw = np.random.default_rng(SEED)
    with (folder / "servegen_clients.csv").open() as text:
        clients = [row for row in csv.DictReader(text) if row["model"] == model and row["mean_input"]]
    rate = np.array([float(c["mean_rate_req_s"]) for c in clients])
    of_clients = [float(np.average([float(c[column]) for c in clients], weights=rate)) for column in means.values()]
    return [_tokens(bins[field], mean, draw) for field, mean in zip(means, of_clients, strict=True)]


def _tokens(bins: list[tuple[float, float, float]], mean: float, draw: np.random.Generator) -> NDArray[np.int32]:
    low, high, probability = (np.array(column) for column in zip(*bins, strict=True))
    draws = 50_000
    edges = np.concatenate(([0.0], np.cumsum(probability / probability.sum())))
    quantile = (np.arange(draws) + 0.5) / draws
    place = np.minimum(np.searchsorted(edges, quantile, side="right") - 1, len(low) - 1)
    within = (quantile - edges[place]) / (edges[place + 1] - edges[place])
    # Bins hold whole tokens [lo, hi): uniform inside a bin, which the narrow log bins make harmless.
    values = np.maximum(low[place] + within * (high[place] - low[place]), 1.0)
    for _ in range(20):
        whole = np.maximum(np.floor(values), 1)
        values *= mean / whole.mean()
    return draw.permutation(np.maximum(np.floor(values), 1)).astype(np.int32)


def write_gzip(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def write_shape(shape: WorkloadShape, licence: str, date: str, method: str) -> ShapeFacts:
    part = extract(shape)
    file = f"{shape.id}.csv.gz"
    units = [[f"{value:g}" for value in column] for column in part.units.values()]
    rows = sorted(zip(part.prompt_tokens.tolist(), part.output_tokens.tolist(), *units, strict=True))
    write_gzip(TARGET / file, ("input_tokens", "output_tokens", *part.units), list(rows))
    full, kept = statistics(shape), statistics(part)
    count = len(shape.prompt_tokens)
    print(f"{shape.id:24} {count:7,} → {PAIRS:,} pairs; largest error of a statistic {largest_error(full, kept):.2%}")
    for field in Statistics.__dataclass_fields__:
        print(f"    {field:20} {getattr(full, field):12,.2f} {getattr(kept, field):12,.2f}")
    return ShapeFacts(shape.id, file, shape.source, licence, date, method, count, full, kept)


def write_window(path: Path, name: str, date: str) -> ShapeFacts:
    """Every row of a window of the Azure LMM trace, with its arrivals."""
    trace = read_trace(path, name=name)
    columns = (trace.units["images"].astype(int), trace.units["image_tokens"].astype(int))
    lengths = (trace.prompt_tokens, trace.output_tokens, *columns)
    arrivals = [f"{at_s:.3f}" for at_s in trace.arrival_s]
    rows = list(zip(arrivals, *(column.tolist() for column in lengths), strict=True))
    file = f"{name}.csv.gz"
    write_gzip(TARGET / file, ("arrival_s", "input_tokens", "output_tokens", "images", "image_tokens"), rows)
    print(f"{name:24} {len(rows):,} rows of {trace.duration_s:.0f} s, {(columns[0] > 0).mean():.1%} with images")
    kept = statistics(WorkloadShape(name, trace.prompt_tokens, trace.output_tokens))
    return ShapeFacts(name, file, AZURE_LMM, "CC-BY-4.0", date, WINDOW, len(rows), kept, kept)


def write_rates(series: RateSeries, licence: str, date: str, method: str) -> RateFacts:
    file = f"rates-{series.id}.csv.gz"
    rows: list[tuple[object, ...]] = [
        (series.id, round(i * series.window_s), f"{rate:.5g}", f"{cv:.4g}")
        for i, (rate, cv) in enumerate(zip(series.requests_per_s, series.cv, strict=True))
    ]
    write_gzip(TARGET / file, ("series", "t_s", "requests_per_s", "cv"), rows)
    mean, peak = series.mean_requests_per_s, series.peak_requests_per_s
    print(f"{series.id:24} {len(rows)} windows of {series.window_s:g} s, mean {mean:.3f}, peak {peak:.3f} requests/s")
    return RateFacts(series.id, file, series.source, licence, date, method, series.window_s)


def main(folder: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    shapes, rates = [], []
    for name, file, source, licence, date in TRACES:
        trace = read_trace(folder / file, name=name)
        shape = WorkloadShape(name, trace.prompt_tokens, trace.output_tokens, source)
        shapes.append(write_shape(shape, licence, date, SYSTEMATIC))
        if trace.duration_s > 0:
            series = trace.rates(60)
            # The last minute is cut off by the end of the trace.
            whole = RateSeries(name, 60, series.requests_per_s[:-1], series.cv[:-1], source)
            rates.append(write_rates(whole, licence, date, "requests counted per minute, last partial minute dropped"))
        if name == "azure-conversation":
            keep = (trace.prompt_tokens <= 2048) & (trace.output_tokens <= 1024)
            cut = WorkloadShape("helix-conversation", trace.prompt_tokens[keep], trace.output_tokens[keep], source)
            how = "as Helix used it, without prompts over 2048 and outputs over 1024 tokens; then " + SYSTEMATIC
            shapes.append(write_shape(cut, licence, date, how))
    servegen = servegen_shape(folder)
    method = (
        "input and output are published as marginals: 50,000 independent draws from the two histograms, scaled to the "
        "rate-weighted means of the clients (914 in, 155 out), then " + SYSTEMATIC
    )
    shapes.append(write_shape(servegen, "Apache-2.0", "2025", method))
    method = (
        "text, answers, images and tokens of an image are published as marginals: 50,000 independent draws from the "
        "histograms, scaled to the rate-weighted means of the clients; images of one request are of one size; then "
        + SYSTEMATIC
    )
    shapes.append(write_shape(servegen_image_shape(folder), "Apache-2.0", "2025", method))
    shapes += [write_window(folder.parent / "multimodal" / file, name, date) for name, file, date in WINDOWS]
    clients = read_rate_series(folder / "servegen_client_rates.csv.gz", 600)
    for model in ("m-large", "m-mid", "m-small"):
        hourly = resampled(clients[model], 3600)
        named = RateSeries(f"servegen-{model}", 3600, hourly.requests_per_s, hourly.cv, SERVEGEN)
        how = (
            "14 days from the start of the trace; clients' 10-minute rates summed and averaged per hour, cv² λ-weighted"
        )
        rates.append(write_rates(named, "Apache-2.0", "2025", how))
    content = msgspec.json.format(msgspec.json.encode(Catalogue(tuple(shapes), tuple(rates))), indent=1)
    (TARGET / "catalogue.json").write_bytes(content + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "data" / "traces")
