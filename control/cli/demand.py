"""`medley demand`: the demand of a fleet, requests that wait, and overrides of the forecast."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from control.cli.acting import acting, opened
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit, table

app = Commands(name="demand", help="Show and override the demand that plans are made for.", no_args_is_help=True)

_SHOWN = timedelta(hours=1)
FleetArgument = Annotated[str, typer.Argument(help="Name of the fleet.")]
ModelArgument = Annotated[str, typer.Argument(help="Name of the model in the fleet's spec.")]


@app.command("show")
def show(fleet: FleetArgument, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show the demand that gateways metered in the last hour, requests that wait, and what is planned for instead: by
    whom, why, and until when. `burst` is the loop itself (`policy.pools.burst`)."""
    from control.db.demand import PostgresDemand
    from control.db.demand_overrides import PostgresDemandOverrides
    from control.db.fleets import PostgresFleets
    from templates_lib.values.work import Unit

    now = datetime.now(UTC)
    with opened(database_url) as database:
        PostgresFleets(database).load(fleet)
        offered = PostgresDemand(database).histories(fleet, now, _SHOWN)
        waiting = PostgresDemand(database).waiting(fleet, now)
        overrides = PostgresDemandOverrides(database).working(fleet, now)
    if output is not Output.TABLE:
        rates = {
            key: {
                "requests_per_s": history.requests_per_s.tolist(),
                "prompt_tokens_per_s": history.of_unit(Unit.PROMPT_TOKEN).tolist(),
                "output_tokens_per_s": history.of_unit(Unit.OUTPUT_TOKEN).tolist(),
                "work": {
                    of: {"unit": unit, "units_per_s": rates.tolist()}
                    for (of, unit), rates in history.units_per_s.items()
                },
            }
            for key, history in offered.items()
        }
        emit({"offered": rates, "waiting": waiting, "overrides": list(overrides.values())}, output)
        return
    shown = table("model", "requests/s", "mean of the hour", "work", "waiting")
    for key, history in sorted(offered.items()):
        app_name = key.rpartition("/")[0]
        last, mean = (f"{rate:.3g}" for rate in (history.requests_per_s[-1], history.requests_per_s.mean()))
        work = "\n".join(f"{of}: {r[-1]:.3g} {unit.plural}/s" for (of, unit), r in history.units_per_s.items())
        shown.add_row(app_name, last, mean, work, str(waiting.get(app_name, 0)))
    console().print(shown)
    if overrides:
        # Of apps they are of all request types together, which are metered one by one.
        said = table("planned for instead", "requests/s", "until", "set by", "why")
        for model, each in sorted(overrides.items()):
            until = f"{each.expires_at:%Y-%m-%d %H:%M}"
            said.add_row(model, f"{each.requests_per_s:.4g}", until, each.made_by, each.reason)
        console().print(said)


@app.command("override")
def override(
    fleet: FleetArgument,
    model: ModelArgument,
    requests_per_s: Annotated[float, typer.Argument(help="Rate to plan for, instead of the forecast.")],
    reason: Annotated[str, typer.Option(help="Reason, for people.")],
    hours: Annotated[float, typer.Option(help="Hours until it expires.")] = 1.0,
    database_url: DatabaseOption = None,
) -> None:
    """Plan for this rate instead of the forecast, for some hours. Replaces an earlier override."""
    from control.actions.override_demand import override_demand

    with acting(database_url) as act:
        try:
            until = act.now + timedelta(hours=hours)
        except (OverflowError, ValueError):
            raise ValueError(f"--hours {hours:g} is no duration that an override can have") from None
        override_demand(act, fleet, model, requests_per_s, until, reason)
    typer.echo(f"Plans serve {requests_per_s:g} requests/s of {model} until {until:%Y-%m-%d %H:%M} UTC.")


@app.command("forecast")
def forecast(fleet: FleetArgument, model: ModelArgument, database_url: DatabaseOption = None) -> None:
    """End an override: plans follow the forecast, or the rate of the spec, again."""
    from control.actions.override_demand import end_override

    with acting(database_url) as act:
        end_override(act, fleet, model)
    typer.echo(f"Plans follow the forecast of {model} again.")
