"""The gateway beside `medley up`: found again, started again, and never left alone unrecorded."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from control.up.gateway_process import GatewayError, GatewayProcess, ensure_gateway, running_gateway
from control.up.home import UpHome
from tests.control.db.processes import lives, start, wait_until
from tests.free_port import free_port

HOST = "127.0.0.1"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[UpHome]:
    made = UpHome.below(tmp_path)
    yield made
    for pid in gateways(made):
        os.kill(pid, signal.SIGKILL)


def gateways(home: UpHome) -> list[int]:
    """Pids of all gateways that work in it, recorded or not."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "control.gateway" in line and str(home.table) in line and lives(process.pid):
            found.append(process.pid)
    return found


def answers(gateway: GatewayProcess) -> bool:
    return httpx.get(f"{gateway.url}/healthz", timeout=60).status_code == 200


def test_a_gateway_outlives_the_process_that_started_it_and_is_found_by_the_next(home: UpHome) -> None:
    code = (
        "import os, sys, pathlib\nfrom control.up.gateway_process import ensure_gateway\n"
        "from control.up.home import UpHome\n"
        "ensure_gateway(UpHome.below(pathlib.Path(sys.argv[1])), '127.0.0.1', 0)\nos._exit(9)"
    )
    starter = start(code, str(home.root.parent))
    assert starter.wait(240) == 9
    starter.communicate()
    found = running_gateway(home)
    assert found is not None
    assert answers(found)
    assert ensure_gateway(home, HOST, 0) == found
    assert gateways(home) == [found.leader.pid]
    found.stop()
    assert running_gateway(home) is None
    assert gateways(home) == []
    found.stop()


def test_a_gateway_that_died_is_replaced_and_one_that_is_elsewhere_moves(home: UpHome) -> None:
    first = ensure_gateway(home, HOST, 0)
    os.kill(first.leader.pid, signal.SIGKILL)
    wait_until(lambda: not first.lives)
    assert running_gateway(home) is None
    second = ensure_gateway(home, HOST, 0)
    assert answers(second)
    free = free_port()
    third = ensure_gateway(home, HOST, free)
    assert third.url == f"http://{HOST}:{free}"
    fourth = ensure_gateway(home, "localhost", free)
    assert fourth != third
    assert not third.lives
    assert gateways(home) == [fourth.leader.pid]
    fourth.stop()


def test_a_port_that_is_taken_is_said_so_and_nothing_is_left(home: UpHome) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        with pytest.raises(GatewayError, match=r"Address already in use.*gateway\.log") as caught:
            ensure_gateway(home, HOST, other.getsockname()[1])
    assert "\n" not in str(caught.value)
    assert gateways(home) == []
    assert running_gateway(home) is None


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"url": "http://x"}',
        '{"leader": {"pid": -1, "started_at": 0}, "url": "", "host": "", "port": 0}',
        '{"leader": {"pid": 1e30, "started_at": 0}, "url": "", "host": "", "port": 0}',
        '{"leader": {"pid": 4194304999, "started_at": 0}, "url": "", "host": "", "port": 0}',
    ],
)
def test_a_record_that_is_damaged_or_of_nobody_is_no_gateway(home: UpHome, damage: str) -> None:
    home.gateway_record.write_text(damage)
    assert running_gateway(home) is None


def test_another_process_that_has_its_pid_is_not_taken_for_it(home: UpHome) -> None:
    record = {"leader": {"pid": os.getpid(), "started_at": 1.0}, "url": "http://x", "host": HOST, "port": 0}
    home.gateway_record.write_text(json.dumps(record))
    assert running_gateway(home) is None


def test_a_damaged_key_of_the_gateway_is_named(home: UpHome) -> None:
    home.gateway_key.write_text("{")
    with pytest.raises(Exception, match=r"gateway\.key"):
        ensure_gateway(home, HOST, 0)
    assert gateways(home) == []
