"""An explanation as text for people."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from control.explain import Explanation
from control.explain.certificate import CORRECTION, MARGIN, Certificate
from control.explain.limits import limit_texts
from control.explain.node_saving import NodeSaving
from control.explain.runner_up import RunnerUp, bag
from control.explain.sharing import SharingExplained
from control.explain.shortage import Shortage
from control.planning.cut_costs import BetterCut
from control.planning.easier_promise import EASIER_PROMISE
from control.planning.objective_costs import Easier
from control.planning.proof import proof_text
from policies.metered_demand import OVERRIDDEN
from templates_lib.values.plan import Plan

CENT = 0.01
MOST_KINDS = 12
MOST_CHANGES = 4
"""Lines of a table before it says how many more there are."""
LIFTED = {
    "supply": "more nodes",
    "supply and policy": "more nodes and other policies",
    "network.peered": "joined networks",
}


def print_explanation(
    name: str,
    plan: Plan,
    explanation: Explanation,
    certified: tuple[Certificate, ...],
    cheaper: tuple[tuple[Easier, ...], tuple[BetterCut, ...]] | None,
    console: Console,
) -> None:
    """`cheaper`: easier objectives, and cuts of prompts, that would be better; None: nobody asked."""
    sections = list(_sections(name, plan, explanation, certified))
    if cheaper is not None:
        easier, cuts = cheaper
        nothing = ["nothing: no objective that is one step easier makes the fleet cheaper"]
        sections.append(("What an easier objective would save", [each.text for each in easier] or nothing))
        none = ["nothing: with prompts cut by length into two pools the fleet is no cheaper, and serves no more"]
        sections.append(("What cutting prompts by length would bring", [each.text for each in cuts] or none))
    for heading, lines in sections:
        console.print(Text(heading, style="bold"))
        for line in lines:
            console.print(Text("- " + line), soft_wrap=True)
        console.print()


def _sections(
    name: str, plan: Plan, explanation: Explanation, certified: tuple[Certificate, ...]
) -> Iterator[tuple[str, list[str]]]:
    title = f"Plan {plan.id[:12]}" + (f" for {name}" if name else "")
    yield f"{title}: {plan.usd_per_hour:,.2f} $/h, {proof_text(plan.status, plan.gap)}", []
    if explanation.shortage is not None:
        yield "What is missing", list(_shortage(explanation.shortage))
    if instead := [reason.text for reason in plan.reasons if reason.kind == OVERRIDDEN]:
        yield "What it is planned for instead of the forecast", instead
    if helps := [reason.text for reason in plan.reasons if reason.kind == EASIER_PROMISE]:
        yield "What an easier promise would change", helps
    yield "What binds", list(limit_texts(explanation.limits, plan))
    yield "What one more node would save", list(_nodes(explanation))
    yield "Why not the runner-up", [_runner_up(r, plan) for r in explanation.runners_up] or ["the plan rents nothing"]
    if explanation.sharing is not None:
        yield "What sharing nodes saves", list(_sharing(explanation.sharing))
    if certified:
        yield "What the templates are certified for", [each.text for each in certified]
    if corrected := [reason.text for reason in plan.reasons if reason.kind == CORRECTION]:
        yield "What answers corrected", corrected
    if left := [reason.text for reason in plan.reasons if reason.kind == MARGIN]:
        yield "What step times leave of it", left
    if explanation.demand_usd_per_hour:
        prices = explanation.demand_usd_per_hour.items()
        yield "What one more request/s would cost", [f"{key}: about {usd:,.2f} $/h" for key, usd in prices]


def _sharing(found: SharingExplained) -> Iterator[str]:
    if not found.members:
        yield "nothing: no models share a node"
    else:
        rest = found.without_unmet_requests_per_s
        unmet = f", and leaves {rest:.4g} requests/s more unserved" if rest > 0 else ""
        saved = f"saves {found.saves_usd_per_hour:,.2f} $/h: with nodes of their own all models cost"
        yield f"{saved} {found.without_usd_per_hour:,.2f} $/h{unmet} (re-solved)"
        for members in found.members:
            yield f"{' + '.join(members)} share nodes"
    for each in found.alone:
        if not each.fits:
            yield f"{each.model} is alone: with no other model of the fleet does it fit a node within the objectives"
        elif each.more_usd_per_hour is None:
            yield f"{each.model} is alone: not re-solved, or no plan serves as much in which all of it shares"
        else:
            yield f"{each.model} is alone: if all of it shared, the plan would cost {each.more_usd_per_hour:+,.2f} $/h"


def _shortage(missing: Shortage) -> Iterator[str]:
    for key, rate in missing.unmet.items():
        yield f"{key}: {rate:.4g} requests/s are not served"
    if not missing.lifted:
        yield "no supply and no policy changes that: no template serves it on any node on offer"
        return
    what = LIFTED.get(missing.lifted, f"another {missing.lifted}")
    rest = ", ".join(f"{rate:.4g} requests/s of {key}" for key, rate in missing.left.items())
    cost = f"the cheapest such fleet costs {missing.usd_per_hour:,.2f} $/h"
    yield f"with {what} {f'all but {rest}' if rest else 'all demand'} is served; {cost}"
    for offer, nodes in missing.nodes.items():
        yield f"it takes {nodes} more of {missing.names[offer]} than there are"
    for pool, over in missing.quotas.items():
        yield f"it takes {over:g} more of quota {pool} than there is"


def _nodes(explanation: Explanation) -> Iterator[str]:
    shown = explanation.one_more_node[:MOST_KINDS]
    width = max((len(s.name) for s in shown), default=0)
    for saving in shown:
        used = f"{saving.used} of {saving.most} used"
        yield f"{saving.name:<{width}}  {used:<{14}}  {_saving(saving, partial=explanation.shortage is not None)}"
    if hidden := len(explanation.one_more_node) - len(shown):
        yield f"{hidden} more kinds: see -o json"
    other = "other " if shown else ""
    if explanation.kinds_with_room:
        yield f"{explanation.kinds_with_room} {other}kinds have nodes left over"
    if explanation.kinds_without_room:
        yield f"{explanation.kinds_without_room} {other}kinds cannot be had: no node or no quota is left"


def _saving(saving: NodeSaving, *, partial: bool) -> str:
    if not saving.verified:
        about = f"{saving.usd_per_hour:,.2f} $/h" if saving.usd_per_hour >= CENT / 2 else "nothing"
        served = " while it serves no more" if partial else ""
        return f"saves about {about}{served} (a dual: not re-solved)"
    if not saving.helps:
        return "saves nothing (re-solved)"
    usd, init = saving.usd_per_hour, saving.init_usd
    cost = f"saves {usd:,.2f} $/h" if usd >= 0 else f"costs {-usd:,.2f} $/h more"
    start = f" and {init:,.2f} $ of initialisation" if usd >= 0 and init >= CENT / 2 else ""
    served = f"serves {saving.requests_per_s:.4g} requests/s more, " if saving.requests_per_s > 0 else ""
    return f"{served}{cost}{start} (re-solved)"


def _runner_up(other: RunnerUp, plan: Plan) -> str:
    share = other.more_usd_per_hour / plan.usd_per_hour if plan.usd_per_hour else 0.0
    cost = f"{other.usd_per_hour:,.2f} $/h, {other.more_usd_per_hour:+,.2f} ({share:+.1%})"
    short = other.unmet_requests_per_s
    unmet = f", and leaves {short:.4g} requests/s more unserved" if short > 0 else ""
    lines = [f"without {bag(other.nodes)} for {other.model}/{other.phase} the best plan costs {cost}{unmet}"]
    for what, instances in (("takes", other.takes), ("gives up", other.gives_up)):
        for place, instance in enumerate(instances[:MOST_CHANGES]):
            lines.append(f"{what if place == 0 else '':<10}{instance}")
        if (hidden := len(instances) - MOST_CHANGES) > 0:
            lines.append(f"{'':<10}and {hidden} more: see -o json")
    return "\n    ".join(lines)
