"""The page of a simulation."""

from math import floor, inf

from control.simulator.report.chart import Chart
from control.simulator.report.fate import first_answer
from control.simulator.report.page import Page, Section, Table, Tile
from control.simulator.report.summary import ModelSummary, Percentiles, Summary


def simulation_page(summary: Summary, charts: tuple[Chart, ...]) -> Page:
    facts = summary.facts
    plans = "one plan" if facts.replan_s >= facts.length_s else f"a plan every {_length(facts.replan_s)}"
    latency = [chart for chart in charts if chart.id in ("ttft", "tpot")]
    over_time = [chart for chart in charts if chart not in latency]
    return Page(
        title=f"{facts.name}: simulation",
        lead=f"Fleet {facts.fleet}, {_length(facts.length_s)} from {facts.start[:16].replace('T', ' ')} UTC; "
        f"strategy {facts.strategy}, {plans}, seed {facts.seed}.",
        tiles=_tiles(summary),
        sections=(
            Section("Models", tables=(_models(summary), _fates(summary), _latencies(summary))),
            Section("Over time", charts=tuple(over_time)),
            Section("Latency of requests", charts=tuple(latency)),
            Section("What this rests on", facts.notes, (_basis(summary),)),
        ),
    )


def _tiles(summary: Summary) -> tuple[Tile, ...]:
    missed = [m.name for m in summary.models if m.holds is False]
    verdict = f"missed by {', '.join(missed)}" if missed else "every model reaches its objective"
    return (
        Tile("paid for nodes", f"{summary.spent_usd_per_hour:,.2f} $/h", f"{summary.spent_usd:,.2f} $ in all"),
        Tile(
            "plans reckoned with", f"{summary.planned_usd_per_hour:,.2f} $/h",
            f"{summary.init_usd_per_hour:,.2f} $/h of start-ups beside it",
        ),
        Tile("within objectives", _percent(summary.within_share), verdict),
        Tile("goodput", _goodput(summary), f"{summary.requests:,} requests came"),
    )  # fmt: skip


def _goodput(summary: Summary) -> str:
    if summary.makes_text:
        return f"{summary.goodput_tokens_per_s:,.0f} tokens/s"
    return f"{sum(m.goodput_requests_per_s for m in summary.models):,.2f} requests/s"


def _models(summary: Summary) -> Table:
    of_text = ("goodput tokens/s", "output tokens/s", "prompt tokens/s") if summary.makes_text else ()
    columns = ("model", "requests", "within objectives", "promised", "planned demand served", "goodput requests/s")
    rows = []
    for m in summary.models:
        tokens = (m.goodput_tokens_per_s, m.output_tokens_per_s, m.prompt_tokens_per_s)[: len(of_text)]
        of_all = m.name, f"{m.requests:,}", _percent(m.within_share), f"{m.slo.percentile:g} %"
        rates = f"{m.goodput_requests_per_s:,.2f}", *(f"{each:,.1f}" if m.makes_text else "" for each in tokens)
        rows.append((*of_all, _percent(m.planned_share), *rates))
    return Table((*columns, *of_text), tuple(rows))


def _fates(summary: Summary) -> Table:
    late = first_answer(m.makes_text for m in summary.models)
    of_text = {"slow": "tokens slow", "preempted": "preempted"} if summary.makes_text else {}
    words = {"within": "within objectives", "late": f"{late} late", "refused": "refused",
             "refused_late": "refused as late", "lost": "lost",
             "unfinished": "unfinished", "restarts": "went on elsewhere", **of_text}  # fmt: skip
    rows = []
    for m in summary.models:
        counts = {**m.fates, "restarts": m.restarts, "preempted": m.preemptions}
        rows.append((m.name, *(f"{counts[what]:,}" for what in words)))
    return Table(("model", *words.values()), tuple(rows))


def _latencies(summary: Summary) -> Table:
    columns = ("model", "ms", "p50", "p90", "p95", "p99", "at the promised percentile", "objective")
    rows = []
    for model in summary.models:
        rows.append(_latency_row(model, first_answer((model.makes_text,)), model.ttft_ms, _first_token(model)))
        if model.makes_text:
            rows.append(_latency_row(model, "per output token", model.tpot_ms, f"{model.slo.tpot_ms:,g}"))
        rows.append(_latency_row(model, "queued", model.queued_ms, ""))
    return Table(columns, tuple(rows), frozenset({0, 1}))


def _latency_row(model: ModelSummary, what: str, found: Percentiles, objective: str) -> tuple[str, ...]:
    values = (found.p50, found.p90, found.p95, found.p99, found.at_objective)
    return model.name, what, *("" if value is None else f"{value:,.1f}" for value in values), objective


def _first_token(model: ModelSummary) -> str:
    slo = model.slo
    more = slo.ttft_ms_per_1k_prompt_tokens
    if slo.ttft_ms == inf:
        return "none"
    return f"{slo.ttft_ms:,g} + {more:,g} per 1,000 prompt tokens" if more else f"{slo.ttft_ms:,g}"


def _basis(summary: Summary) -> Table:
    facts, prints = summary.facts, summary.fingerprints
    solved = f"{summary.plans}, median {summary.median_solve_s:.2f} s"
    took = f"{summary.plane_wall_s:,.1f} s of planning and reconciling, {summary.serving_wall_s:,.1f} s of serving"
    rows = [
        *(("source", source) for source in facts.sources),
        ("cost model", facts.cost_model),
        ("demand that was planned for", facts.demand),
        ("plans", solved),
        ("what happened", ", ".join(f"{count:,} {kind}" for kind, count in summary.events.items()) or "nothing"),
        ("wall time", took),
        ("seed", str(facts.seed)),
        ("Medley", prints.medley),
        ("fingerprint of requests", prints.requests),
        ("fingerprint of plans", prints.plans),
        ("fingerprint of results", prints.served),
    ]
    return Table(("", ""), tuple(rows), frozenset({0, 1}))


def _percent(share: float | None) -> str:
    # Rounded down: 100 % is said of nothing that missed one.
    return "" if share is None else f"{floor(1e4 * share + 1e-9) / 100:.2f} %"


def _length(seconds: float) -> str:
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} seconds"
