"""`medley reconcile`: make every fleet what its plan says."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import home, who
from control.cli.applying import AskedFleet, ModeOption, PreflightOption, ProjectOption, YesOption, apply_file
from control.cli.options import DatabaseOption, SpecOption
from control.lifecycle.fleet import FleetMode
from control.overlay.invitation import OVERLAY_PORT
from templates_lib.values.ways import HUB_PORT, REGISTRY_PORT

if TYPE_CHECKING:
    from control.lifecycle.fleet import FleetRecord, FleetTarget
    from control.reconcile.daemon import DaemonOutcome

AddressOption = Annotated[
    str, typer.Option(help="Host name or address by which nodes of other machines reach the control plane.")
]
ImageOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLOUD=IMAGE", help="For a cloud's nodes: an AMI, a GCP image, docker:IMAGE. Default: SkyPilot's."
    ),
]


def reconcile(
    file: SpecOption = None,
    mode: ModeOption = None,
    project: ProjectOption = None,
    yes: YesOption = False,
    preflight: PreflightOption = True,
    once: Annotated[
        bool, typer.Option("--once", help="Exit as soon as every fleet is as its plan says: for cron and the like.")
    ] = False,
    timeout_minutes: Annotated[float, typer.Option(min=0.01, help="Longest run of --once.")] = 30.0,
    bind: Annotated[str, typer.Option(help="Address to listen on for nodes.")] = "127.0.0.1",
    address: AddressOption = "127.0.0.1",
    hub_port: Annotated[int, typer.Option(min=1, max=65535, help="Nodes report to it.")] = HUB_PORT,
    registry_port: Annotated[int, typer.Option(min=1, max=65535, help="New nodes register at it.")] = REGISTRY_PORT,
    demand_port: Annotated[int, typer.Option(min=0, max=65535, help="Gateways report demand to it. 0: any.")] = 0,
    reach_s: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds that nodes get to find it, before one counts as lost.")
    ] = 45.0,
    image: ImageOption = None,
    overlay_port: Annotated[
        int, typer.Option(min=1, max=65535, help="UDP; nodes of fleets with `network.overlay: wireguard` call there.")
    ] = OVERLAY_PORT,
    database_url: DatabaseOption = None,
) -> None:
    """Make every fleet what its plan says: ask prices, plan, launch, repair, drain.

    When several run on one database, one leads and the others wait. When it ends, everything keeps running. `medley
    apply` creates fleets; each begins in mode observe, in which nothing is touched. With -f the fleet of that file is
    applied first, as `medley apply` does it, and --mode, --project, --yes and --no-preflight are of it.
    """
    from control.actions.context import ActionContext
    from control.cli.progress import build_progress
    from control.db.fleets import PostgresFleets
    from control.db.kept_database import open_kept_database
    from control.db.shared_clock import shared_clock
    from control.reconcile.adapters import makers
    from control.reconcile.daemon import Daemon, DaemonSettings
    from control.reconcile.daemon_home import DaemonHome
    from control.reconcile.live_planner import live_planner
    from control.simulator.attainment import SimulatedAttainment

    if file is None and (mode is not None or project is not None or yes or not preflight):
        raise ValueError("--mode, --project, --yes and --no-preflight are of the fleet of a file: name that with -f")
    asked = None if file is None else AskedFleet.read(file, mode, project, yes=yes, preflight=preflight)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    own = DaemonHome.below(home())
    once_s = 60 * timeout_minutes if once else 0.0
    images = images_of(image or ())
    ports = hub_port, registry_port, demand_port
    settings = DaemonSettings(own, bind, address, *ports, reach_s, images, overlay_port, once_s)
    with (
        open_kept_database(database_url, logging.getLogger("control.db").warning) as database,
        build_progress() as progress,
        makers(database, own, images) as clouds,
    ):
        planner = live_planner(database, home(), progress, SimulatedAttainment)
        if asked is not None:
            act = ActionContext(database, shared_clock(database)(), who())
            apply_file(asked, act, planner, "this loop applies it")
        outcome = asyncio.run(Daemon(database, planner, settings, clouds).serve())
        fleets = PostgresFleets(database)
        records, targets = (fleets.all(), fleets.targets()) if once else ((), {})
    for fleet, why in sorted(outcome.trouble.items()):
        typer.echo(f"{fleet}: {why}", err=True)
    if once:
        _print_round(outcome, records, targets)


def _print_round(
    outcome: "DaemonOutcome", records: "Sequence[FleetRecord]", targets: "Mapping[str, FleetTarget]"
) -> None:
    """Print what one round has come to. Raises typer.Exit where a fleet is not as its plan says."""
    if outcome.stood_by:
        typer.echo("another control plane leads, and manages the fleets")
        return
    which = "every other fleet" if outcome.trouble else "every fleet"
    if not outcome.settled:
        typer.echo("not every fleet is as its plan says yet")
    elif not outcome.trouble or any(record.name not in outcome.trouble for record in records):
        typer.echo(f"{which} is as its plan says")
    for record in records:
        if not targets[record.name].proposed:
            continue
        observed = record.mode is FleetMode.OBSERVE
        why = "mode observe touches nothing" if observed else f"`medley approve {record.name}` shows what it changes"
        typer.echo(f"{record.name}: a plan waits for approval: {why}")
    if not outcome.settled or outcome.trouble:
        raise typer.Exit(1)


def images_of(given: Iterable[str]) -> dict[str, str]:
    """Cloud → image. Raises ValueError for a text that is no CLOUD=IMAGE."""
    images = {}
    for each in given:
        cloud, _, image = each.partition("=")
        if not cloud or not image:
            raise ValueError(f"--image {each}: write CLOUD=IMAGE, such as aws=ami-0123456789abcdef0")
        images[cloud] = image
    return images
