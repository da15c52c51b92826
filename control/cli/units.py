"""`medley units`: models that share nodes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from control.planning.session import PlanningSession
    from templates_lib.values.plan import PlannedInstance

app = Commands(name="units", help="List and show units: nodes that several models share.", no_args_is_help=True)
PlanArgument = Annotated[str, typer.Argument(help="Id of a stored plan, or its beginning.")]


@app.command("list")
def list_(plan: PlanArgument, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List the shared units of a plan, with what is used of each."""
    from control.cli.planning import session

    with session(database_url) as opened:
        found = opened.plans.load(opened.plans.find(plan).id)
        units = [unit for each in found.instances if (unit := _document(opened, found.library_version, each))]
    if emitted(units, output):
        return
    right = ("count", "time", "KV cache", "$/h")
    shown = table("unit", "members", "node", "zone", *right, right=right)
    for each in units:
        names = "\n".join(f"{m['model']} {m['requests_per_s']:.3g}/s{_paid(m)}" for m in each["members"])
        shares = (f"{each['used'].get(name, 0.0):.0%}" for name in right[1:3])
        zone = each["zone"] or "any"
        shown.add_row(
            each["template_id"][:12], names, " + ".join(each["nodes"]), zone, str(each["count"]), *shares,
            f"{each['usd_per_hour']:,.2f}",
        )  # fmt: skip
    console().print(shown)


@app.command("show")
def show(
    plan: PlanArgument,
    unit: Annotated[str, typer.Argument(help="Id of a unit of that plan (`medley units list`), or its beginning.")],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the members of a unit: what the plan counts on, and what each would do without the others."""
    from control.cli.planning import session
    from control.planning.templates import stored_template
    from templates_lib.values.nearest_name import nearest_name

    with session(database_url) as opened:
        found = opened.plans.load(opened.plans.find(plan).id)
        units = {u["template_id"]: u for i in found.instances if (u := _document(opened, found.library_version, i))}
        named = [name for name in units if name.startswith(unit)]
        if len(named) != 1:
            text = "begins several" if named else nearest_name(unit, [name[:12] for name in units])
            raise ValueError(f"plan {found.id[:12]} has no one unit {unit!r}: {text}")
        capacity = stored_template(opened.store, named[0], found.library_version).capacity
    each = units[named[0]] | {"alone": capacity.points[0].units_per_s, "limits": capacity.limits}
    if emitted(each, output):
        return
    right = ("requests/s", "alone", "GPUs", "$/h")
    title = f"Unit {each['template_id'][:12]} on {' + '.join(each['nodes'])}, KV cache {each['kv_gib']:.1f} GiB"
    shown = table("member", *right, right=right, title=title)
    for member in each["members"]:
        alone = next((v for k, v in each["alone"].items() if k.rpartition("/")[0] == member["model"]), 0.0)
        rates = f"{member['requests_per_s']:.3g}", f"{alone:.3g}"
        shown.add_row(member["model"], *rates, str(member["gpus"]), _paid(member).strip(" $"))
    console().print(shown)


def _paid(member: dict[str, Any]) -> str:
    """Words for what a member pays of the rent; none where the plan does not say."""
    usd = member["usd_per_hour"]
    return "" if usd is None else f" ${usd:,.2f}"


def _document(opened: "PlanningSession", version: str, instance: "PlannedInstance") -> dict[str, Any] | None:
    import msgspec

    from control.planning.shared_unit import shared_unit, used
    from control.planning.templates import stored_template

    unit = shared_unit(instance)
    if unit is None:
        return None
    capacity = stored_template(opened.store, instance.template_id, version).capacity
    return {
        "template_id": instance.template_id,
        "zone": instance.zone,
        "market": instance.market.value,
        "count": instance.count,
        "nodes": instance.nodes,
        "usd_per_hour": instance.usd_per_hour,
        "used": used(capacity, instance.units_per_s),
        "members": [msgspec.to_builtins(member) for member in unit.members],
        "kv_gib": unit.kv_gib,
    }
