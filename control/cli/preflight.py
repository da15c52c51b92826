"""`medley preflight`: what a launch needs, looked at before anything is rented."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import home, opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit, table
from control.cli.reconcile import AddressOption, ImageOption, images_of

if TYPE_CHECKING:
    from control.preflight.finding import Finding


def preflight(
    file: Annotated[Path, typer.Option("--file", "-f", help="Spec file (apiVersion: medley/v1, kind: Fleet).")],
    address: AddressOption = "127.0.0.1",
    image: ImageOption = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Look at all that a launch needs, before a dollar is spent.

    Plans the file, then asks in order: tools of this machine, accounts and their quotas, machines in their zones,
    drivers and images, the way from nodes to the control plane, engines, weights, tokenizers, disks. Nothing is
    rented. Exit code 1 when something fails.
    """
    from control.cli.planning import planned
    from control.offers.live.readers import cloud_readers
    from control.planning.world import read_world
    from control.preflight.planned import Planned
    from control.preflight.site import Site
    from control.preflight.walk import preflight as walk
    from control.reconcile.adapters import makers
    from control.reconcile.daemon_home import DaemonHome

    images, world = images_of(image or ()), read_world(file)
    report = planned(file, None, None, database_url, save_snapshot=None, baselines=False)
    with (
        opened(database_url) as database,
        makers(database, DaemonHome.below(home()), images) as clouds,
    ):
        site = Site(address, clouds, datetime.now(UTC), images, cloud_readers(os.environ))
        found = list(walk(Planned(world, report.plan), site))
    failed = sum(each.status == "fail" for each in found)
    if output is Output.TABLE:
        _print(found, failed, report.plan.id)
    else:
        emit({"kind": "medley/preflight", "plan": report.plan.id, "passes": not failed, "checks": found}, output)
    if failed:
        raise typer.Exit(1)


def _print(found: "Sequence[Finding]", failed: int, plan: str) -> None:
    shown = table("", "check", "of", "")
    for each in found:
        shown.add_row(each.status.value, each.name, each.subject, each.detail)
    console().print(shown)
    unknown = sum(each.status == "unknown" for each in found)
    verdict = (
        f"{failed} of {len(found)} checks of plan {plan[:12]} fail"
        if failed
        else f"nothing that plan {plan[:12]} needs fails"
    )
    beside = f"; {unknown} cannot be told from here" if unknown else ""
    typer.echo(f"{verdict}{beside}. Nothing was rented." if found else f"plan {plan[:12]} starts nothing.")
