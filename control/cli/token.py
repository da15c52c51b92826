"""`medley token`: who may use the API and call models."""

from dataclasses import asdict, astuple
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from control.access.role import Role
from control.access.use_limits import UseLimits
from control.cli.acting import acting, opened
from control.cli.cost import SinceOption, UntilOption, period
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit, emitted, fitting_table, say, table
from control.given_name import DEFAULT_PROJECT, check_name
from policies.priority import Priority

if TYPE_CHECKING:
    from control.fleet.key_costs import KeyCosts

app = Commands(
    name="token", help="Create, list, rotate and revoke API tokens, and what their use cost.", no_args_is_help=True
)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of its user, for people.")],
    role: Annotated[Role, typer.Option(help="What its user may do.")] = Role.VIEWER,
    days: Annotated[
        float | None, typer.Option(help="Days until it expires. Default: never.", show_default=False)
    ] = None,
    project: Annotated[str, typer.Option(help="Project that pays for its use.")] = DEFAULT_PROJECT,
    requests_per_minute: Annotated[
        int | None, typer.Option(help="Requests a minute at each gateway. Default: no limit.", show_default=False)
    ] = None,
    tokens_per_minute: Annotated[
        int | None,
        typer.Option(
            help="Tokens a minute, prompts and answers, at each gateway. Default: no limit.", show_default=False
        ),
    ] = None,
    concurrent_requests: Annotated[
        int | None,
        typer.Option(help="Requests that are open at a gateway at once. Default: no limit.", show_default=False),
    ] = None,
    priority: Annotated[
        Priority, typer.Option(help="Priority of its user's requests; they may ask for a lower one (`service_tier`).")
    ] = Priority.STANDARD,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Create a token and print it. It is not shown again: the database holds its hash only."""
    from control.actions.tokens import create_token

    check_name("project", project)
    limits = UseLimits(requests_per_minute, tokens_per_minute, concurrent_requests)
    with acting(database_url) as act:
        try:
            expires_at = None if days is None else act.now + timedelta(days=days)
        except (OverflowError, ValueError):
            raise ValueError(f"--days {days:g} is no lifetime that a token can have") from None
        token, secret = create_token(act, name, role, expires_at, project, limits, priority)
    if output is Output.TABLE:
        typer.echo(secret.reveal())
        say(f"Token {token.id} ({role}) for {name}. Store it now: it is not shown again.")
    else:
        emit(asdict(token) | {"token": secret.reveal()}, output)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List all tokens, revoked and expired ones too, the newest first. Their secrets are not stored."""
    from control.db.api_tokens import PostgresApiTokens

    with opened(database_url) as database:
        tokens = PostgresApiTokens(database).list()
    if emitted(tokens, output):
        return
    now = datetime.now(UTC)
    columns = (
        "id",
        "name",
        "role",
        "project",
        "created at",
        "expires at",
        "works",
        "requests/min",
        "tokens/min",
        "at once",
        "priority",
    )
    shown = table(*columns)
    for token in tokens:
        ends = "" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d %H:%M}"
        works = "yes" if token.works(now) else "revoked" if token.revoked_at is not None else "expired"
        limits = ("" if n is None else f"{n:,}" for n in astuple(token.limits))
        made = f"{token.created_at:%Y-%m-%d %H:%M}"
        shown.add_row(token.id, token.name, token.role, token.project, made, ends, works, *limits, token.priority)
    console().print(shown)


@app.command("cost")
def cost(
    fleet: Annotated[str | None, typer.Option(help="Of one fleet. Default: of all.", show_default=False)] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show what the use of each token cost, to the cent: its part of the rent of what served it, and what nobody used.

    Prompts and answers count as the instances that compute them cost. Times are UTC; a period has 92 days at most.
    """
    from control.fleet.key_costs import key_costs

    now = datetime.now(UTC)
    span = period(since, until, now)
    with opened(database_url) as database:
        costs = key_costs(database, span, now, fleet)
    if not emitted(costs, output):
        _print_costs(costs)


def _print_costs(costs: "KeyCosts") -> None:
    typer.echo(f"{costs.since:%Y-%m-%d %H:%M} to {costs.until:%Y-%m-%d %H:%M} UTC")
    figures = ("$", "share", "$/M tokens", "requests", "prompt tokens", "answer tokens")

    def row(key: str, name: str, project: str, usd: float, *served: str) -> tuple[str, ...]:
        share = f"{usd / costs.usd:.1%}" if costs.usd else ""
        return key, name, project, f"{usd:,.2f}", share, *(served or ("",) * 4)

    rows = [
        row(
            each.key or "(not told)",
            each.name,
            each.project or "(no key)",
            each.usd,
            "" if each.usd_per_million_tokens is None else f"{each.usd_per_million_tokens:,.2f}",
            f"{each.requests:,}",
            f"{each.prompt_tokens:,}",
            f"{each.output_tokens:,}",
        )
        for each in costs.keys
    ]
    rows += [row("(idle)", "", "", costs.idle_usd), row("all", "", "", costs.usd)]
    to = console()
    spare = ("prompt tokens", "answer tokens", "requests", "project")
    to.print(fitting_table(("token", "name", "project", *figures), rows, to.width, right=figures, spare=spare))


@app.command("rotate")
def rotate(
    token: Annotated[str, typer.Argument(help="Its id, as `medley token list` shows it.")],
    grace_hours: Annotated[float, typer.Option(help="Hours in which the old one works on.")] = 24.0,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Make a token in place of another, for the same user and with the same rights and limits, and print it."""
    from control.actions.tokens import rotate_token

    with acting(database_url) as act:
        new, secret = rotate_token(act, token, timedelta(hours=min(max(grace_hours, -1.0), 1e6)))
    if output is Output.TABLE:
        typer.echo(secret.reveal())
        say(f"Token {new.id} for {new.name}. {token} works for {grace_hours:g} h more: change it everywhere by then.")
    else:
        emit(asdict(new) | {"token": secret.reveal()}, output)


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="Its id, as `medley token list` shows it.")],
    database_url: DatabaseOption = None,
) -> None:
    """End a token, and each session that began with it."""
    from control.actions.tokens import revoke_token

    with acting(database_url) as act:
        revoke_token(act, token)
    typer.echo(f"Token {token} revoked.")
