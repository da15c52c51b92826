"""`medley alerts`: list alerts, and manage the webhooks that they are sent to."""

import os
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from control.cli.acting import acting, opened
from control.cli.guard import Commands
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, console, emitted, say, table

app = Commands(name="alerts", help="List alerts, and send them to webhooks.", no_args_is_help=True)
webhooks = Commands(name="webhook", help="Add, list, try and remove webhooks.", no_args_is_help=True)
app.add_typer(webhooks)
NameArgument = Annotated[str, typer.Argument(help="Its name.")]


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Also resolved alerts.")] = False,
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """List alerts that are open."""
    from control.db.alerts import PostgresAlerts

    with opened(database_url) as database:
        found = PostgresAlerts(database).recent(limit, open_only=not every)
    if emitted(found, output):
        return
    if not found:
        typer.echo("No alert is open.")
    for alert in found:
        over = f", resolved at {alert.resolved_at[:16]}" if alert.resolved_at else ""
        typer.echo(f"{alert.opened_at[:16]}{over}  {alert.severity}  {alert.kind}  {alert.subject}: {alert.text}")


@app.command("watch")
def watch(
    once: Annotated[bool, typer.Option("--once", help="Check and send once, then exit: for cron.")] = False,
    every_s: Annotated[float, typer.Option(min=1, help="Seconds between two checks.")] = 30.0,
    database_url: DatabaseOption = None,
) -> None:
    """Check budgets, leaks and fleets, record alerts and send them, until interrupted.

    `medley reconcile` and `medley up` do so themselves. Run this on another machine, so that you learn when they stop.
    """
    from control.alerts.watch import AlertWatch
    from control.db.errors import DatabaseUnavailableError
    from control.db.kept_database import open_kept_database

    with open_kept_database(database_url, lambda what: say(f"medley: {what}")) as database:
        watching = AlertWatch(database, lambda: datetime.now(UTC))
        while True:
            try:
                sent = watching.step()
            except DatabaseUnavailableError as error:
                if once:
                    raise
                say(f"medley: {error}; trying again")
            else:
                if once or sent.delivered or sent.failed:
                    typer.echo(f"{sent.delivered} sent, {sent.failed} will be tried again")
            if once:
                return
            time.sleep(every_s)


@app.command("rules")
def rules(output: OutputOption = Output.TABLE) -> None:
    """List the kinds of alerts, and when each opens."""
    from policies.alert_rules import RULES

    if emitted([{"kind": kind, "when": when} for kind, when in RULES.items()], output):
        return
    for kind, when in RULES.items():
        typer.echo(f"{kind:<20} {when}")


@webhooks.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Name of the webhook; one of the same name is replaced.")],
    url: Annotated[str, typer.Argument(help="https://…")],
    secret: Annotated[str, typer.Option(help="Place of the secret that signs what is sent: env:NAME or file:/PATH.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="Only alerts of this kind; may be repeated.", show_default=False)
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Allow http and addresses of your own network.")] = False,
    database_url: DatabaseOption = None,
) -> None:
    """Send alerts to a URL, signed. The secret itself is never stored (docs/cost.md shows how to verify)."""
    from control.actions.webhooks import set_webhook
    from control.alerts.secret_source import NoSecretError, check_source, read_secret
    from control.given_name import check_name
    from policies.alert_rules import AlertKind
    from templates_lib.values.nearest_name import nearest_name

    check_name("webhook", name)
    known = {each.value for each in AlertKind}
    for each in kind or ():
        if each not in known:
            raise ValueError(f"unknown kind of alert {each!r}; {nearest_name(each, known)}")
    try:
        read_secret(check_source(secret), os.environ)
    except NoSecretError as error:
        say(f"medley: {error} here: make sure that the process that runs `medley reconcile` has it")
    with acting(database_url) as act:
        set_webhook(act, name, url, secret, kind or (), internal)
    typer.echo(f"Webhook {name} stored: `medley alerts webhook test {name}` tries it.")


@webhooks.command("test")
def try_webhook(name: NameArgument, database_url: DatabaseOption = None) -> None:
    """Send a test message to a webhook, signed as alerts are, and show the answer.

    It is sent from this shell, which needs the secret. Exits with 1 when the receiver does not take it.
    """
    from control.actions.webhooks import try_webhook as attempt

    with acting(database_url) as act:
        tried = attempt(act, name)
    if not tried.delivered:
        raise ValueError(f"webhook {name} did not take it: {tried.outcome}")
    typer.echo(f"Webhook {name} took it: {tried.outcome}.")


@webhooks.command("list")
def list_webhooks(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List webhooks, with the deliveries that wait for each, and why they do."""
    from control.db.alerts import PostgresAlerts
    from control.db.webhooks import PostgresWebhooks

    with opened(database_url) as database:
        found, pending = PostgresWebhooks(database).all(), PostgresAlerts(database).pending()
    if emitted(found, output):
        return
    shown = table("webhook", "url", "secret", "kinds", "waiting", "because")
    for each in found:
        waiting, why = pending.get(each.name, (0, ""))
        shown.add_row(each.name, each.url, each.secret, ", ".join(each.kinds) or "all", str(waiting), why)
    console().print(shown)


@webhooks.command("remove")
def remove(name: NameArgument, database_url: DatabaseOption = None) -> None:
    """Remove a webhook, and what still waits to be sent there."""
    from control.actions.webhooks import remove_webhook

    with acting(database_url) as act:
        remove_webhook(act, name)
    typer.echo(f"Webhook {name} removed.")
