"""A fleet with an overlay network is run by a control plane that nodes can call over it, and by no other."""

from pathlib import Path
from typing import Any

import pytest

from control.db.database import Database
from control.overlay.interface import OverlayError
from control.reconcile.daemon import Daemon, DaemonSettings
from control.reconcile.daemon_home import DaemonHome
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.fleet.fleets import plan_of, planned
from tests.control.planning.worlds import KEEP_SPEC, world_of

SPEC = KEEP_SPEC.format(keep="throughput")
OVERLAID = SPEC + "network: {overlay: wireguard}\n"


def test_a_fleet_with_an_overlay_is_refused_where_nodes_could_not_call(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.overlay.interface.lacking", lambda: ("a kernel",))
    plan = plan_of([planned(1, zone="aws/us-east-2")], [], [])
    world: dict[str, Any] = {name: world_of(tmp_path, text) for name, text in (("with", OVERLAID), ("without", SPEC))}

    def reach(bind: str, fleet: str) -> None:
        settings = DaemonSettings(DaemonHome.below(tmp_path), bind, "192.0.2.7", 7501, 7502)
        daemon = Daemon(database, None, settings, {"aws": lambda: FakeCloud("aws", {})})  # type: ignore[arg-type]
        daemon._reach(world[fleet], plan)

    reach("127.0.0.1", "without")
    with pytest.raises(OverlayError, match=r"--bind 0\.0\.0\.0"):
        reach("127.0.0.1", "with")
    with pytest.raises(OverlayError, match="needs a kernel"):
        reach("0.0.0.0", "with")  # noqa: S104
