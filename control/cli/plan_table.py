"""A plan as tables for people."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from control.cli.cost_chart import terminal_chart
from control.cli.output import table
from control.cli.plan_document import stages
from control.cli.time_text import OLD, age
from control.explain.certificate import MARGIN
from control.planning.proof import proof_text
from control.planning.report import SERVED, PlanReport, unmet_share
from control.planning.shared_unit import shared_unit
from control.planning.step_time_lines import step_time_lines
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.plan import Plan, PlannedInstance

TOP_REASONS = 6
ALIKE = 0.0005
"""Share of the cost below which a saving would be printed as 0.0%."""
TABLE_WIDTH = 118
"""Columns of a terminal in which the table of instances is still readable; a narrower one gets a list."""


def print_plan(report: PlanReport, console: Console) -> None:
    plan = report.plan
    console.print(
        Text.assemble(
            ("Plan ", "bold"), (plan.id[:12], "bold cyan"), f" for {report.name}, mode {report.snapshot.settings.mode}"
        )
    )
    console.print(_instances(report) if console.width >= TABLE_WIDTH else _listed_instances(report))
    console.print(_totals(report))
    console.print(_demand(report))
    if plan.attainment:
        console.print(_attainment(plan))
    if report.baselines:
        console.print(_baselines(report))
        console.print(terminal_chart(report, console.width))
    if plan.reasons:
        console.print(Text("Why", style="bold"))
        console.print(_reasons(plan))
    console.print(_basis(report))


def _attainment(plan: Plan) -> Table:
    seeds = ", ".join(str(seed) for seed in sorted({each.seed for each in plan.attainment.values()}))
    shown = table("work class", "promised", "kept", "±", "requests", right=("promised", "kept", "±", "requests"))
    shown.title = f"Objectives kept in simulation at the planned rates, seed {seeds}"
    for name, each in sorted(plan.attainment.items()):
        style = "" if each.is_kept else "bold red"
        kept = Text(f"{100 * each.share:.2f} %", style=style)
        shown.add_row(name, f"{each.percentile:g} %", kept, f"{100 * each.error:.2f}", f"{each.requests:,}")
    return shown


def _instances(report: PlanReport) -> Table:
    columns = ("model", "phase", "zone", "market", "count", "nodes of one", "stages: layers on nodes")
    shown = table(*columns, "tokens/s", "$/h", right=("count", "tokens/s", "$/h"), title="Instances")
    for i in report.plan.instances:
        count = f"{i.count}" + (f" ({i.running} run)" if i.running else "")
        nodes = "\n".join(f"{n} x {config}" for config, n in i.nodes.items())
        tokens = report.tokens_per_s(i)
        rate, price = "?" if tokens is None else f"{tokens:,.0f}", f"{i.usd_per_hour:,.2f}"
        shown.add_row(i.model, i.phase, i.zone or "any", i.market.value, count, nodes, _stages(i), rate, price)
    return shown


def _listed_instances(report: PlanReport) -> Text:
    lines = Text.assemble(("Instances\n", "bold"))
    for i in report.plan.instances:
        tokens = report.tokens_per_s(i)
        rate = "" if tokens is None else f", {tokens:,.0f} tokens/s"
        running = f" ({i.running} run)" if i.running else ""
        where = f"{i.zone or 'any zone'} {i.market.value}"
        lines.append(f"{i.count} x {i.model}/{i.phase}{running}, {where}{rate}, {i.usd_per_hour:,.2f} $/h\n")
        what = _stages(i) or "\n".join(f"{n} x {config}" for config, n in i.nodes.items())
        lines.append("".join(f"    {line}\n" for line in what.splitlines()), style="dim")
    return lines


def _stages(instance: PlannedInstance) -> str:
    """Return a line a stage, or an executor of components, the last of which names the engine of all, where they have
    one; of models that share a node a line each."""
    if unit := shared_unit(instance):
        return "\n".join(f"{each.model}: {each.requests_per_s:.3g} requests/s" for each in unit.members)
    lines = []
    for stage in stages(instance):
        nodes = " + ".join(f"{n['count']} x {n['config']}{_parallel(n)}" for n in stage["nodes"])
        executor = f"{stage['executor']} " if "executor" in stage else ""
        lines.append(f"{executor}{stage['first_layer']}-{stage['last_layer']}: {nodes}")
    lines += [f"{len(e.devices)} x {'+'.join(e.components)} on {_gpus(e.gpus)}" for e in gpu_executors(instance)]
    by = f" by {instance.software.engine}" if lines and instance.software and instance.software.engine else ""
    return "\n".join(lines) + by


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _parallel(nodes: dict[str, int]) -> str:
    parts = [f"{kind}{nodes[kind]}" for kind in ("tp", "dp", "pp", "ep") if nodes[kind] > 1]
    return f" ({' '.join(parts)})" if parts else ""


def _totals(report: PlanReport) -> RenderableType:
    plan, tolerance = report.plan, report.snapshot.settings.limits.gap
    disks = f" + disks {plan.disks_usd_per_hour:,.2f}" if plan.disks_usd_per_hour else ""
    parts = [
        f"Cost {plan.usd_per_hour:,.2f} $/h = rent {plan.rent_usd_per_hour:,.2f}{disks} + traffic "
        f"{plan.traffic_usd_per_hour:,.2f}; not included: initialisation {plan.init_usd:,.2f} $, spot risk "
        f"{plan.spot_risk_usd_per_hour:,.2f} $/h"
    ]
    parts.append(
        f"{proof_text(plan.status, plan.gap, tolerance).capitalize()}: objective {plan.objective:,.2f}, bound "
        f"{plan.bound:,.2f}, "
        f"solved in {plan.solve_s:.2f} s"
    )
    nodes = sum(o.nodes for o in plan.offers)
    parts.append(f"{nodes} nodes in {sum(i.count for i in plan.instances)} instances")
    return Padding("\n".join(parts), (1, 0), expand=False)


def _demand(report: PlanReport) -> RenderableType:
    lines = Text()
    unmet = {k: u for k, u in report.plan.unmet.items() if u > SERVED}
    if not unmet:
        lines.append("All demand is met", style="bold green")
    else:
        lines.append("DEMAND IS NOT MET: ", style="bold red")
        short = (f"{key} misses {rate:.3g} requests/s" for key, rate in unmet.items())
        lines.append("; ".join(short) + "\n", style="red")
    asked = ", ".join(f"{d.key} {d.requests_per_s:.4g}" for d in report.snapshot.demand)
    lines.append(f"{'Demand' if unmet else ''}, in requests/s: {asked}")
    return Padding(lines, (0, 0, 1, 0), expand=False)


def _baselines(report: PlanReport) -> RenderableType:
    plan = report.plan
    right = ("$/h", "times the plan", "saved", "unmet demand")
    shown = table("fleet", *right, "breaks", right=right, title="Against other fleets")
    shown.add_row("medley", f"{plan.usd_per_hour:,.2f}", "1.00", "", f"{unmet_share(plan, report.snapshot):.1%}")
    for name, baseline in report.baselines.items():
        ratio = f"{baseline.usd_per_hour / plan.usd_per_hour:.2f}" if plan.usd_per_hour else "-"
        serves_less, broken = report.serves_less(name), ", ".join(report.broken.get(name, ()))
        comparable = baseline.usd_per_hour and not serves_less and not broken
        saved = f"{1 - plan.usd_per_hour / baseline.usd_per_hour:.1%}" if comparable else "-"
        short = Text(f"{unmet_share(baseline, report.snapshot):.1%}", style="red" if serves_less else "")
        shown.add_row(name, f"{baseline.usd_per_hour:,.2f}", ratio, saved, short, Text(broken, style="red"))
    verdict = against_cheapest(report)
    text = (
        "No baseline serves as much of the demand within the guardrails, so no saving can be stated."
        if verdict is None
        else f"The plan {verdict}, the cheapest baseline that serves as much of the demand."
    )
    return Padding(Group(shown, Text(text)), (0, 0, 1, 0), expand=False)


def against_cheapest(report: PlanReport) -> str | None:
    """`saves 7.7% against homo_joint`; None where no baseline is an alternative."""
    best = report.cheapest_complete_baseline
    if best is None:
        return None
    other = report.baselines[best].usd_per_hour
    share = 1 - report.plan.usd_per_hour / other if other else 0.0
    if abs(share) < ALIKE:
        return f"costs the same as {best}"
    return f"saves {share:.1%} against {best}" if share > 0 else f"costs {-share:.1%} more than {best}"


def _reasons(plan: Plan) -> Text:
    text = Text()
    for reason in plan.reasons[:TOP_REASONS]:
        text.append(f"  - {reason.text}\n")
    if (hidden := len(plan.reasons) - TOP_REASONS) > 0:
        text.append(f"  - and {hidden} more: see -o json\n")
    text.append(f"  `medley explain {plan.id[:12]}` says more, and verifies it by planning again\n")
    return text


def _basis(report: PlanReport) -> Text:
    basis = report.basis
    dates = " to ".join(dict.fromkeys(d for d in basis.prices_observed if d))
    lines = [f"Step times: {basis.cost_model}."]
    if basis.price_sources:
        lines[0] += f" Prices: of {dates or 'no date'}, from {'; '.join(basis.price_sources)}"
    if basis.derived_offers:
        lines.append(f"Derived (sizes nobody sells, priced per GPU): {', '.join(basis.derived_offers)}")
    lines += [f"Step times: {line}" for line in step_time_lines(basis.step_times)]
    lines += [f"Caps: {reason.text}" for reason in report.plan.reasons if reason.kind == MARGIN]
    lines += [f"Note: {note}" for note in basis.notes]
    text = Text("\n".join(lines), style="dim")
    if (oldest := _oldest(basis.prices_observed)) is not None and oldest > OLD:
        text.append(f"\nPrices are up to {age(oldest)} old: `medley offers refresh` asks the clouds", style="red")
    return text


def _oldest(observed: Iterable[str]) -> timedelta | None:
    """Age of the oldest price that has a day; None: none has one."""
    days = [day for day in observed if len(day) >= len("2026-01-01")]
    if not days:
        return None
    seen = min(datetime.fromisoformat(day) for day in days)
    return datetime.now(UTC) - (seen if seen.tzinfo else seen.replace(tzinfo=UTC))
