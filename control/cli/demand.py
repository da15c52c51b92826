"""`medley demand`: what clients ask of a fleet, who waits, and what operators say instead of a forecast."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from control.cli.audit import did, who
from control.cli.guard import guarded
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit

app = typer.Typer(name="demand", help="Show and override the demand that is planned for.", no_args_is_help=True)

_SHOWN = timedelta(hours=1)
FleetArgument = Annotated[str, typer.Argument(help="Name of the fleet.")]
ModelArgument = Annotated[str, typer.Argument(help="Name of the model in the fleet's spec.")]


@app.command("show")
@guarded
def show(fleet: FleetArgument, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """What gateways were offered in the last hour, in steps of five minutes, what they hold, and overrides."""
    from control.db.database import open_database
    from control.db.demand import PostgresDemand
    from control.db.demand_overrides import PostgresDemandOverrides
    from control.db.fleets import PostgresFleets

    now = datetime.now(UTC)
    with open_database(database_url) as database:
        PostgresFleets(database).load(fleet)
        offered = PostgresDemand(database).histories(fleet, now, _SHOWN)
        waiting = PostgresDemand(database).waiting(fleet, now)
        overrides = PostgresDemandOverrides(database).working(fleet, now)
    if output is not Output.TABLE:
        rates = {
            key: {
                "requests_per_s": history.requests_per_s.tolist(),
                "prompt_tokens_per_s": history.prompt_tokens_per_s.tolist(),
                "output_tokens_per_s": history.output_tokens_per_s.tolist(),
            }
            for key, history in offered.items()
        }
        emit({"offered": rates, "waiting": waiting, "overrides": list(overrides.values())}, output)
        return
    from rich.table import Table

    table = Table("model", "requests/s", "of an hour", "prompt tokens/s", "output tokens/s", "waiting", "override")
    table.box, table.pad_edge = None, False
    for key, history in sorted(offered.items()):
        app_name = key.rpartition("/")[0]
        over = overrides.get(app_name)
        said = (
            "" if over is None else f"{over.requests_per_s:g}/s until {over.expires_at:%Y-%m-%d %H:%M}: {over.reason}"
        )
        rates_now = (history.requests_per_s, history.prompt_tokens_per_s, history.output_tokens_per_s)
        last, prompt, made = (f"{rate[-1]:.3g}" for rate in rates_now)
        mean = f"{history.requests_per_s.mean():.3g}"
        table.add_row(app_name, last, mean, prompt, made, str(waiting.get(app_name, 0)), said)
    console().print(table)


@app.command("override")
@guarded
def override(
    fleet: FleetArgument,
    model: ModelArgument,
    requests_per_s: Annotated[float, typer.Argument(help="To be planned for, whatever is metered or in the spec.")],
    reason: Annotated[str, typer.Option(help="Why, for people.")],
    hours: Annotated[float, typer.Option(help="Until it expires.")] = 1.0,
    database_url: DatabaseOption = None,
) -> None:
    """Plan for this rate instead of the forecast, for a time. In place of an earlier override."""
    from control.api.fleet_document import served_names
    from control.db.database import open_database
    from control.db.demand_overrides import Override, PostgresDemandOverrides
    from control.db.fleets import PostgresFleets
    from templates_lib.values.nearest_name import nearest_name

    now = datetime.now(UTC)
    try:
        until = now + timedelta(hours=hours)
    except (OverflowError, ValueError):
        raise ValueError(f"--hours {hours:g} is no time that an override could last") from None
    with open_database(database_url) as database:
        names = served_names(PostgresFleets(database).load(fleet))
        if model not in names:
            raise ValueError(f"fleet {fleet!r} has no model {model!r}; {nearest_name(model, names)}")
        what = f"{model} is planned for {requests_per_s:g} requests/s until {until:%Y-%m-%d %H:%M} UTC"
        with database.as_one() as one:
            PostgresDemandOverrides(one).set(fleet, Override(model, requests_per_s, who(), reason, now, until))
            did(one, now, "demand.overridden", f"{what}: {reason}", fleet=fleet, subject=model)
    typer.echo(what)


@app.command("forecast")
@guarded
def forecast(fleet: FleetArgument, model: ModelArgument, database_url: DatabaseOption = None) -> None:
    """End an override: the forecast, or the rate of the spec, counts again."""
    from control.db.database import open_database
    from control.db.demand_overrides import PostgresDemandOverrides
    from control.db.fleets import PostgresFleets

    now = datetime.now(UTC)
    with open_database(database_url) as database, database.as_one() as one:
        PostgresFleets(one).load(fleet)
        ended = PostgresDemandOverrides(one).end(fleet, model, now)
        if ended:
            did(one, now, "demand.forecast", f"{model} is forecast again", fleet=fleet, subject=model)
    typer.echo(f"{model} is forecast again" if ended else f"{model} was not overridden")
