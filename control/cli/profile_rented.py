"""`medley profile run --cloud`, `rented` and `end`: nodes that are rented to be measured, and given back."""

import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import home, opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, say, table

if TYPE_CHECKING:
    from control.actions.ask_measurement import AskedMeasurement
    from control.cloud.node import CloudNode
    from control.profiles.rented_nodes import Pace
    from control.reconcile.clouds import Clouds


def run_rented(
    asked: "AskedMeasurement",
    file: Path | None,
    images: Mapping[str, str],
    yes: bool,
    output: Output,
    database_url: str | None,
) -> None:
    """Say what it may cost, ask, measure and print. `images`: cloud → image."""
    from control.actions.ask_measurement import measurement_of
    from control.actions.measure_rented import measure_rented
    from control.cli.profile_table import print_profiles
    from control.cli.progress import build_progress
    from control.cloud.ssh.cloud import OwnMachines
    from control.db.installation import owner_of
    from control.market.view import StoredMarket
    from control.planning.local_profiles import profile_store
    from control.planning.world import read_world
    from control.reconcile.adapters import makers
    from control.reconcile.clouds import Clouds
    from control.reconcile.daemon_home import DaemonHome

    store = profile_store(home())
    with opened(database_url) as database:
        market = StoredMarket.read(database, datetime.now(UTC))
        world = None if file is None else read_world(file, market)
        measurement = measurement_of(asked, market, world)
        for line in measurement.statement:
            say(line)
        if not yes:
            typer.confirm("Do this?", abort=True, err=True)
        with (
            makers(database, DaemonHome.below(home()), images) as known,
            ended_politely() as pace,
            build_progress() as progress,
        ):
            clouds = Clouds(known)
            cloud = clouds.need(asked.cloud)
            if world is not None and isinstance(cloud, OwnMachines):
                cloud.offer(world.fleet.hosts)
            # Adapters of its own: hosts of the run that was killed are not for this one.
            _end_left(Clouds(known), owner_of(database), asked.cloud, "")
            began = pace.now()
            stored = measure_rented(measurement, cloud, owner_of(database), store, pace, progress)
            say(f"medley: given back after {(pace.now() - began).total_seconds() / 60:.1f} minutes")
    print_profiles([stored], output)


def rented(output: OutputOption = Output.TABLE) -> None:
    """List nodes that are rented to be measured: by runs that go on, and by runs that were killed."""
    import msgspec

    from control.planning.local_profiles import profile_store

    found = profile_store(home()).rentals.all()
    if emitted(msgspec.to_builtins(found, enc_hook=str), output):  # hosts have paths of keys
        return
    if not found:
        typer.echo("No node is rented to be measured.")
        return
    shown = table("node", "cloud", "machine", "zone", "$/h", "asked", "until", "run", right=("$/h",))
    for each in found:
        one = each.rental
        what = (one.node, one.cloud, one.instance_type, one.zone, f"{one.usd_per_hour:.3f}")
        shown.add_row(*what, one.asked_at[:19], one.until[:19], "goes on" if each.held else "was killed")
    console().print(shown)
    if not all(each.held for each in found):
        typer.echo("`medley profile end` gives back what runs have left that were killed.")


def end(
    node: Annotated[str, typer.Argument(help="Only this node.", show_default=False)] = "",
    database_url: DatabaseOption = None,
) -> None:
    """Give back nodes of runs that were killed. Those of runs that go on are left alone: Ctrl-C ends such a run."""
    from control.db.installation import owner_of
    from control.planning.local_profiles import profile_store
    from control.reconcile.adapters import makers
    from control.reconcile.clouds import Clouds
    from control.reconcile.daemon_home import DaemonHome

    left = [each for each in profile_store(home()).rentals.all() if node in ("", each.rental.node)]
    if not any(not each.held for each in left):
        of_run = " but what a run that goes on has rented" if left else ""
        typer.echo(f"Nothing is to be given back{of_run}.")
        return
    with (
        opened(database_url) as database,
        makers(database, DaemonHome.below(home()), {}) as known,
        ended_politely(),
    ):
        for cloud in sorted({each.rental.cloud for each in left if not each.held}):
            _end_left(Clouds(known), owner_of(database), cloud, node)


@contextmanager
def ended_politely(*, more_follows: bool = False) -> "Iterator[Pace]":
    """Yield the pace of a run which the first Ctrl-C, SIGTERM or hang-up interrupts, so that it gives back what it has
    rented; what comes later, or meanwhile, is only answered. `more_follows`: that the block gives back is not the end
    of the program, and what came meanwhile interrupts it behind the block."""
    from control.profiles.rented_nodes import Pace

    ending, missed = False, ""

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal ending, missed
        if ending:
            missed = signal.Signals(number).name
            say("medley: giving back what was rented; a moment")
            return
        ending = True
        raise KeyboardInterrupt(signal.Signals(number).name)

    def end() -> None:
        nonlocal ending
        ending = True

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield Pace(lambda: datetime.now(UTC), time.sleep, _until_done, ending=end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if more_follows and missed:
        raise KeyboardInterrupt(missed)


def _until_done(answer: "Future[CloudNode]", seconds: float) -> None:
    wait([answer], seconds)


def _end_left(clouds: "Clouds", owner: str, cloud: str, node: str) -> None:
    """Give back what runs have left that were killed, of a cloud, or a node of it (empty: of all). Signals interrupt
    what comes next, as they did before."""
    from control.actions.measure_rented import end_rented, nodes_of
    from control.planning.local_profiles import profile_store

    rentals = profile_store(home()).rentals
    if not (left := rentals.take_left(cloud, node)):
        return
    with ended_politely(more_follows=True) as pace:
        nodes = nodes_of(clouds.need(cloud), rentals, owner, pace)
        for held in left:
            say(f"medley: giving back {held.rental.node}, which a run has left that was killed")
            nodes.take_over(held)
        end_rented(nodes)
