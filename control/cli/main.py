"""The `medley` command. Nothing heavy is imported before a command runs: `--help` must answer at once."""

import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from control.cli import (
    alerts,
    api,
    audit,
    budgets,
    chat,
    check,
    cost,
    database,
    demand,
    doctor,
    explain,
    fleets,
    gateway,
    graphs,
    init,
    instances,
    keys,
    logs,
    names,
    objectives,
    offers,
    orchestrator,
    plan,
    plans,
    pools,
    preflight,
    profile,
    projects,
    reconcile,
    replay,
    runs,
    sbom,
    simulate,
    status,
    tasks,
    templates,
    token,
    top,
    units,
    up,
    workflows,
)
from control.cli.guard import Commands, Sections, reached_a_command


class _Medley(Sections):
    SECTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Plan": (
            "init", "plan", "explain", "objectives", "check", "preflight", "simulate", "models", "workloads", "gpus",
            "offers", "templates", "units", "graphs", "tasks", "profile", "dev",
        ),
        "Serve": (
            "up", "apply", "approve", "fleets", "plans", "reconcile", "gateway", "api", "chat", "workflows",
            "orchestrator", "signal",
        ),
        "Watch": (
            "status", "top", "instances", "runs", "events", "logs", "alerts", "demand", "pools", "replay",
            "audit",
        ),
        "Spend": ("cost", "budgets"),
        "Administer": ("doctor", "projects", "token", "keys", "db", "sbom", "version"),
    }  # fmt: skip


app = Commands(
    name="medley",
    cls=_Medley,
    help="Plan the cheapest fleet of mixed GPUs that serves your models within their latency objectives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init.init)
app.command("models")(names.models)
app.command("workloads")(names.workloads)
app.command("gpus")(names.gpus)
app.command("up")(up.up)
app.command("api")(api.api)
app.command("apply")(fleets.apply)
app.command("approve")(fleets.approve)
app.command("reconcile")(reconcile.reconcile)
app.command("gateway")(gateway.gateway)
app.command("status")(status.status)
app.command("top")(top.top)
app.command("events")(instances.events)
app.command("pools")(pools.pools)
app.command("logs")(logs.logs)
app.command("chat")(chat.chat)
app.command("doctor")(doctor.doctor)
app.command("sbom")(sbom.sbom)
app.command("plan")(plan.plan)
app.command("preflight")(preflight.preflight)
app.command("explain")(explain.explain)
app.command("objectives")(objectives.objectives)
app.command("cost")(cost.cost)
app.command("check")(check.check)
app.command("simulate")(simulate.simulate)
app.command("replay")(replay.replay)
app.command("dev")(orchestrator.dev)
app.command("orchestrator")(orchestrator.orchestrator)
app.command("signal")(runs.signal)
app.add_typer(budgets.app, name="budgets")
app.add_typer(alerts.app, name="alerts")
app.add_typer(demand.app, name="demand")
app.add_typer(fleets.app, name="fleets")
app.add_typer(instances.app, name="instances")
app.add_typer(projects.app, name="projects")
app.add_typer(plans.app, name="plans")
app.add_typer(templates.app, name="templates")
app.add_typer(units.app, name="units")
app.add_typer(graphs.app, name="graphs")
app.add_typer(tasks.app, name="tasks")
app.add_typer(workflows.app, name="workflows")
app.add_typer(runs.app, name="runs")
app.add_typer(offers.app, name="offers")
app.add_typer(profile.app, name="profile")
app.add_typer(audit.app, name="audit")
app.add_typer(keys.app, name="keys")
app.add_typer(token.app, name="token")
app.add_typer(database.app, name="db")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take what stands before a command."""


@app.command("version")
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("medley-serving"))


def run() -> None:
    try:
        app()
    except SystemExit as end:
        # Bad arguments are an error like any other: exit code 2 means "would change the fleet" and nothing else.
        if end.code == 2 and not reached_a_command():
            sys.exit(1)
        raise
