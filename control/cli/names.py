"""`medley models`, `medley workloads` and `medley gpus`: what a spec file may name."""

from typing import TYPE_CHECKING, Any

import typer

from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from templates_lib.models.model_spec import ModelSpec

_GIB = 2**30


def models(output: OutputOption = Output.TABLE) -> None:
    """List the models of the catalogue."""
    from templates_lib.models.catalogue import load_models, weights_places

    places = weights_places()
    rows = [_model(spec) | {"weights": places.get(name, "")} for name, spec in sorted(load_models().items())]
    if emitted(rows, output):
        return
    right = ("layers", "weights GiB", "context")
    shown = table("model", "format", *right, "weights", right=right)
    for row in rows:
        weights = f"{row['weight_gib']:.1f}"
        shown.add_row(
            row["model"], row["format"], str(row["layers"]), weights, f"{row['context_tokens']:,}", row["weights"]
        )
    console().print(shown)
    typer.echo(
        "Any other model of a family that is known: `model: PATH` of its Hugging Face config.json (docs/spec.md)."
    )


def _model(spec: "ModelSpec") -> dict[str, Any]:
    return {
        "model": spec.id,
        "format": spec.dtype,
        "layers": spec.layers,
        "weight_gib": spec.weight_bytes / _GIB,
        "context_tokens": spec.max_context_tokens,
    }


def workloads(output: OutputOption = Output.TABLE) -> None:
    """List the shapes of prompts and answers that ship with Medley."""
    from templates_lib.load.shapes import catalogue

    rows: list[dict[str, Any]] = [
        {
            "workload": facts.id,
            "mean_prompt_tokens": facts.full.mean_prompt_tokens,
            "p99_prompt_tokens": facts.full.p99_prompt_tokens,
            "mean_output_tokens": facts.full.mean_output_tokens,
            "p99_output_tokens": facts.full.p99_output_tokens,
            "requests": facts.requests,
            "date": facts.date,
            "source": facts.source,
        }
        for facts in catalogue().shapes
    ]
    if emitted(rows, output):
        return
    right = ("prompt, mean", "p99", "answer, mean", "p99 ")
    shown = table("workload", *right, "date", "source", right=right)
    for row in rows:
        tokens = (row[key] for key in row if key.endswith("tokens"))
        shown.add_row(row["workload"], *(f"{each:,.0f}" for each in tokens), row["date"], row["source"])
    console().print(shown)


def gpus(output: OutputOption = Output.TABLE) -> None:
    """List GPUs: memory, who sells them, and the least that an hour of one has cost."""
    from control.offers.prices import regions_by_cloud
    from control.offers.selection import Selection
    from control.offers.shipped import ShippedOffers
    from templates_lib.values.hardware import load_gpus
    from templates_lib.values.offer import Market

    markets = (Market.ON_DEMAND, Market.SPOT)
    quotes = ShippedOffers([Selection(cloud, markets=markets) for cloud in sorted(regions_by_cloud())]).fetch()
    rows: list[dict[str, Any]] = []
    for name, gpu in load_gpus().items():
        own = [(o, quotes.configs[o.node_config]) for o in quotes.offers if quotes.configs[o.node_config].gpu == name]
        least = {m: min((o.usd_per_hour / c.gpu_count for o, c in own if o.market is m), default=None) for m in markets}
        rows.append(
            {
                "gpu": name,
                "memory_gib": gpu.memory_gib,
                "counts": sorted({config.gpu_count for _, config in own}),
                "clouds": sorted({offer.cloud for offer, _ in own}),
                "on_demand_usd_per_gpu_hour": least[Market.ON_DEMAND],
                "spot_usd_per_gpu_hour": least[Market.SPOT],
            }
        )
    if emitted(rows, output):
        return
    right = ("memory GiB", "on demand, $/h", "spot, $/h")
    shown = table("GPU", *right, "of one node", "clouds", right=right)
    for row in rows:
        prices = (row["on_demand_usd_per_gpu_hour"], row["spot_usd_per_gpu_hour"])
        shown.add_row(
            row["gpu"], f"{row['memory_gib']:.0f}", *("" if price is None else f"{price:.2f}" for price in prices),
            ", ".join(map(str, row["counts"])), ", ".join(row["clouds"]),
        )  # fmt: skip
    console().print(shown)
    typer.echo("Least price of a GPU by dated lists; `medley offers list --gpu NAME` shows each offer with its age.")
