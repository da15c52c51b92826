"""Fits templates_lib/data/perf/estimated_coefficients.json from shared/data/perf. About two minutes on one core.

    PYTHONPATH=. python bench/extracts/fit_cost_model.py

Rows that templates_lib.cost.validation holds out are never fitted. What was measured for which card is written
beside its numbers; factors for number formats without a table (4-bit weights, weights widened on the fly) are
FORMAT_FACTORS.
"""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from fit_kernels import attention_fits, expert_fits, gemm_fits, link_fits
from fit_setups import backend_rows
from fit_torch import fit_torch, measured_rows
from layer_rows import helix_errors, helix_fit, helix_links, vidur_fit
from perf_tables import as_sent, deployment_rows

from templates_lib.cost.coefficients import (
    Coefficients,
    GpuCoefficients,
    Kernel,
    Link,
    LinkGroups,
    Origin,
)
from templates_lib.cost.deployment import Deployment, deployment_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import load_gpus

OUT = Path(__file__).resolve().parents[2] / "templates_lib" / "data" / "perf" / "estimated_coefficients.json"
DATE = "2026-11-27"
SOURCE = (
    "NVIDIA aiconfigurator-core 0.12.0 (gemm, attention, moe, allreduce, silicon), Vidur @7d47513 "
    "(linear ops, A40), Helix @148b733 (layers of L4, T4, V100)"
)
QUEUED_TTFT_MS = 10_000.0
BACKENDS = ("vllm", "sglang", "trtllm")
FORMAT_FACTORS = {
    "fp8_pad_columns": 0.36,  # engines fuse the quantisation of activations that the table times with the product
    "dequantised_compute": 0.8,
    "dequantised_memory": 0.85,
    "dequantised_rows": 16.0,
    "dequantised_expert_compute": 0.7,
    "dequantised_expert_rows": 16.0,
    "fp4_compute": 1.1,
    "fp4_memory": 0.9,
    "fp4_expert_compute": 1.3,
    "fp4_expert_memory": 1.15,
}
"""Over the bf16 (dequantised) or fp8 (fp4) kernel of the same card; no table has 4-bit products. Found by coordinate
descent on the end-to-end rows that are not held out, all models together, in steps of a quarter. What is widened is
multiplied by kernels of its own (Marlin), in tiles of 16 rows: a few rows take what reading the packed weights takes
(Frantar et al., MARLIN, 2024: nearly four times as fast as 16 bits up to batches of 16 to 32). So it does not get the
rows that the card's 16-bit products seem to be padded by, which reading four times as many bytes hides; nor do experts
get those of the Triton kernel that the bf16 table timed, which on A100 had no tuned tiles: their computing is as
efficient as the card's products, times a factor."""
KERNELS, LENT = "kernels of vLLM (aiconfigurator)", "lent by its kin"


def tidy(kernel: Kernel) -> Kernel:
    """Efficiencies above the data sheet are cache hits of small shapes: capped. Four digits are plenty."""
    capped = replace(kernel, compute=min(kernel.compute, 1.0), memory=min(kernel.memory, 1.0))
    names = ("compute", "memory", "launch_s", "pad_rows", "pad_columns", "row_s")
    return replace(capped, **{n: float(f"{getattr(capped, n):.4g}") for n in names})


def with_formats(gemm: dict[str, Kernel], experts: dict[str, Kernel]) -> tuple[dict[str, Kernel], dict[str, Kernel]]:
    """Adds the kernels of formats that nobody measured, as factors of those that were."""
    f = FORMAT_FACTORS
    plain = gemm["bf16"]
    more = {"dequantised": replace(plain, compute=plain.compute * f["dequantised_compute"],
                                   memory=plain.memory * f["dequantised_memory"],
                                   pad_rows=min(plain.pad_rows, f["dequantised_rows"]))}  # fmt: skip
    sparse = experts.get("bf16", replace(plain, launch_s=4e-5, pad_columns=0.0, pad_rows=150.0))
    more_experts = {"bf16": sparse, "dequantised": replace(
        sparse, compute=plain.compute * f["dequantised_expert_compute"], memory=sparse.memory *
        f["dequantised_memory"], pad_rows=f["dequantised_expert_rows"])}  # fmt: skip
    if "fp8" in gemm:
        fp8 = replace(gemm["fp8"], pad_columns=gemm["fp8"].pad_columns * f["fp8_pad_columns"])
        more |= {"fp8": fp8, "fp4": replace(fp8, compute=fp8.compute * f["fp4_compute"],
                                            memory=fp8.memory * f["fp4_memory"])}  # fmt: skip
        sparse8 = experts["fp8"]
        more_experts |= {"fp8": sparse8, "fp4": replace(
            sparse8, compute=sparse8.compute * f["fp4_expert_compute"],
            memory=sparse8.memory * f["fp4_expert_memory"])}  # fmt: skip
    return (
        {k: tidy(v) for k, v in sorted((gemm | more).items())},
        {k: tidy(v) for k, v in sorted((experts | more_experts).items())},
    )


def measured_cards(gpus: dict[str, Gpu]) -> tuple[dict[str, GpuCoefficients], dict[str, list[float]]]:
    """Cards with kernel tables, and the median held-out error of every table that was fitted."""
    gemm, experts, (prefill, decode) = gemm_fits(gpus), expert_fits(gpus), attention_fits(gpus)
    cards, errors = {}, {}
    for name in prefill:
        own = {c: f for (n, c), f in gemm.items() if n == name}
        sparse = {c: f for (n, c), f in experts.items() if n == name}
        products, blocks = with_formats(*({c: f.kernel for c, f in fits.items()} for fits in (own, sparse)))
        evidence = f"measured: products, attention and expert blocks of vLLM on {name} ({', '.join(sorted(own))})"
        parts = {"gemm": [*own.values()], "experts": [*sparse.values()],
                 "prefill_attention": [prefill[name]], "decode_attention": [decode[name]]}  # fmt: skip
        origins = {part: Origin(name, sum(f.rows for f in fits), KERNELS) for part, fits in parts.items()}
        cards[name] = GpuCoefficients(
            evidence, origins, products, blocks, tidy(prefill[name].kernel), tidy(decode[name].kernel)
        )
        errors[name] = [round(f.held_out_error, 3) for fits in parts.values() for f in fits]
    return cards, errors


def lent(card: GpuCoefficients, evidence: str, measured: dict[str, Origin] | None = None) -> GpuCoefficients:
    """`card`'s numbers for its kin, of which only `measured` parts are its own."""
    origins = {part: replace(o, what=LENT) for part, o in card.origins.items()}
    return replace(card, evidence=evidence, origins=origins | (measured or {}))


def all_cards(gpus: dict[str, Gpu], base: Coefficients) -> Coefficients:
    """Adds the cards without kernel tables: by their layers, or by their nearest kin."""
    cards = dict(base.gpus)
    a100 = cards["A100-80"]
    a40 = vidur_fit("a40", gpus["A40"])
    products, blocks = with_formats({"bf16": a40.kernel}, {"bf16": a100.experts["bf16"]})
    own = {"gemm": Origin("A40", a40.rows, "linear layers (Vidur)")}
    evidence = "measured: linear layers (Vidur); attention and expert blocks as A100-80"
    cards["A40"] = replace(lent(a100, evidence, own), gemm=products, experts=blocks)
    cards["A10G"] = lent(cards["A40"], "not measured: efficiencies of A40, the nearest kin, on A10G's data sheet")
    cards["A100-40"] = lent(a100, "efficiencies of A100-80; layers of A100-40 (Helix) agree within 7 %, not fitted")
    cards["L40"] = lent(cards["L40S"], "not measured: efficiencies of L40S on L40's data sheet")
    for name in ("L4", "T4", "V100"):
        cards[name] = by_layers(name, gpus, replace(base, gpus=cards))
    cards["V100-32"] = lent(cards["V100"], "efficiencies of V100-16 (Helix layers)")
    partial = replace(base, gpus=cards)
    layered = {name: helix_links(name, gpus, partial) for name in ("L4", "T4")}
    return with_links(partial, layered)


def by_layers(name: str, gpus: dict[str, Gpu], base: Coefficients) -> GpuCoefficients:
    """A card from its whole layers (Helix); what they do not show is set by analogy."""
    a100, (fitted, rows) = base.gpus["A100-80"], helix_fit(name, gpus, base)
    products, blocks = with_formats(fitted.gemm, {"bf16": replace(
        fitted.gemm["bf16"], launch_s=4e-5, pad_rows=a100.experts["bf16"].pad_rows)})  # fmt: skip
    if gpus[name].peak_fp8_tflops:
        products, blocks = products | {"fp8": products["bf16"]}, blocks | {"fp8": blocks["bf16"]}
    layers = Origin(name, rows, "layers of LLaMA-30B and Llama-2-70B (Helix, vLLM, fp16)")
    origins = {
        "gemm": layers,
        "experts": Origin(name, 0, "as efficient as its products: assumed"),
        "prefill_attention": Origin(name, 0, "0.6 of its products' efficiency: assumed"),
        "decode_attention": layers,
    }
    return replace(fitted, gemm=products, experts=blocks, decode_attention=tidy(fitted.decode_attention),
        prefill_attention=tidy(fitted.prefill_attention), origins=origins, evidence=(
        "measured: layers of LLaMA-30B and Llama-2-70B (Helix, vLLM, fp16); expert blocks and 8-bit products as "
        "efficient as 16-bit ones: assumed"))  # fmt: skip


def with_links(base: Coefficients, layered: dict[str, tuple[LinkGroups, int]]) -> Coefficients:
    """Adds the links that whole layers show, and A100-80's to its kin; tells every card whose its links are."""
    links = base.links | {name: tidy_links(found) for name, (found, _) in layered.items()}
    links |= {"A100-40": links["A100-80"]}
    origins = {name: card.origins["links"] for name, card in base.gpus.items() if name in base.links}
    origins |= {name: Origin(name, rows, "layers over 2 and 4 GPUs (Helix)") for name, (_, rows) in layered.items()}
    origins["A100-40"] = replace(origins["A100-80"], what=LENT)
    likely = Origin("H100 or L40S", 0, "NVLink as H100, PCIe as L40S, by the node's bandwidth")
    cards = {
        name: replace(card, origins=card.origins | {"links": origins.get(name, likely)})
        for name, card in base.gpus.items()
    }
    fallback = replace(base.fallback, origins=base.fallback.origins | {"links": likely})
    return replace(base, gpus=dict(sorted(cards.items())), fallback=fallback, links=dict(sorted(links.items())))


def tidy_links(links: LinkGroups) -> LinkGroups:
    return LinkGroups(
        tuple(Link(g.peers, float(f"{g.latency_s:.3g}"), float(f"{g.efficiency:.3g}")) for g in links.groups)
    )


def median_kernel(kernels: list[Kernel]) -> Kernel:
    names = ("compute", "memory", "launch_s", "pad_rows", "pad_columns", "row_s")
    return tidy(Kernel(**{n: float(np.median([getattr(k, n) for k in kernels])) for n in names}))


def median_card(cards: dict[str, GpuCoefficients]) -> GpuCoefficients:
    found = list(cards.values())
    formats = ("bf16", "dequantised", "fp8", "fp4")
    return GpuCoefficients(
        "not measured: data-sheet peaks with the median efficiency of six measured cards",
        {part: Origin(", ".join(sorted(cards)), 0, "their median") for part in found[0].origins},
        {f: median_kernel([c.gemm[f] for c in found if f in c.gemm]) for f in formats},
        {f: median_kernel([c.experts[f] for c in found if f in c.experts]) for f in formats},
        median_kernel([c.prefill_attention for c in found]),
        median_kernel([c.decode_attention for c in found]),
    )


def kernels() -> tuple[Coefficients, dict[str, list[float]]]:
    """Everything but the engines."""
    gpus = load_gpus()
    cards, errors = measured_cards(gpus)
    fitted = link_fits()
    links = {name: tidy_links(found) for name, (found, _) in fitted.items()}
    for name, (_, count) in fitted.items():
        reduced = Origin(name, count, "all-reduce of vLLM in a CUDA graph")
        cards[name] = replace(cards[name], origins=cards[name].origins | {"links": reduced})
    base = Coefficients(
        version=1,
        date=DATE,
        source=SOURCE,
        gpus=cards,
        fallback=median_card(cards),
        links=links,
        nvlink=links["H100"],
        pcie=links["L40S"],
        network=Link(2, 5e-5, 0.8),
        engines={},
        serving={},
        setups={},
    )
    return all_cards(gpus, base), errors


def training_rows() -> list[tuple[dict[str, str], Deployment]]:
    """End-to-end rows without queueing artefacts, held-out ones included, with the lengths that clients sent."""
    rows = ((row, as_sent(row, deployment_of(row))) for row in deployment_rows())
    return [(row, d) for row, d in rows if d.ttft_ms <= QUEUED_TTFT_MS]


def main() -> None:
    coefficients, errors = kernels()
    print("held-out median error of kernel tables:", errors)
    print("held-out median error of layers:", helix_errors(load_gpus(), coefficients))
    rows = training_rows()
    engines, serving, setups = {}, {}, {}
    for name in BACKENDS:
        backend = backend_rows(rows, coefficients, name)
        whole, found = backend.fit(backend.training)
        engines[name], serving[name] = whole.engine, whole.serving
        setups |= found
        print(whole, f"{len(found)} setups")
    coefficients = replace(coefficients, engines=engines)
    engines["torch"] = fit_torch(coefficients, measured_rows()).planned
    done = replace(coefficients, engines=engines, serving=serving, setups=dict(sorted(setups.items())))
    OUT.write_text(json.dumps(msgspec.to_builtins(done), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
