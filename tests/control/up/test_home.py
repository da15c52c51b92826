"""What `medley up` keeps on disk: private, the same next time, and no trouble when it is damaged."""

import socket
import stat
from pathlib import Path

import pytest

from agents.channels.errors import BadKeyError
from control.up.home import ListenPorts, UpHome, write_private


@pytest.fixture
def home(tmp_path: Path) -> UpHome:
    return UpHome.below(tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_may_read_what_is_in_it(home: UpHome) -> None:
    home.keys("control")
    home.ports()
    write_private(home.api_key, b"secret")
    assert mode(home.root) == 0o700
    assert [mode(path) for path in home.root.iterdir()] == [0o600] * 3


def test_a_private_file_is_replaced_whole_and_stays_private(home: UpHome) -> None:
    home.api_key.write_text("before")
    home.api_key.chmod(0o644)
    write_private(home.api_key, b"after")
    assert (home.api_key.read_text(), mode(home.api_key)) == ("after", 0o600)
    assert [path.name for path in home.root.iterdir()] == [home.api_key.name]


def test_keys_and_ports_stay_and_differ_by_name(home: UpHome) -> None:
    again = UpHome.below(home.root.parent)
    assert again.keys("control") == home.keys("control")
    assert home.keys("gateway") != home.keys("control")
    ports = home.ports()
    assert again.ports() == ports
    assert ports.hub != ports.registry


def test_ports_that_somebody_else_has_taken_are_given_up(home: UpHome) -> None:
    ports = home.ports()
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.hub))
        other.listen()
        moved = home.ports()
        assert ports.hub not in (moved.hub, moved.registry)
    assert home.ports() == moved


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"hub": 5000}',
        b'{"hub": 0, "registry": 5001}',
        b'{"hub": -1, "registry": 5001}',
        b'{"hub": 5000, "registry": 70000}',
        b'{"hub": 5000, "registry": 5000}',
        b'{"hub": "5000", "registry": 5001}',
    ],
)
def test_damaged_ports_are_chosen_anew(home: UpHome, damage: bytes) -> None:
    (home.root / "ports.json").write_bytes(damage)
    ports = home.ports()
    assert isinstance(ports, ListenPorts)
    assert ports.hub != ports.registry
    assert home.ports() == ports


@pytest.mark.parametrize("damage", ["", "{", '{"public": "x", "secret": "y"}'])
def test_a_damaged_key_is_named_and_never_replaced(home: UpHome, damage: str) -> None:
    """Nodes that run know the control plane by it: only its owner may decide to throw it away."""
    (home.root / "control.key").write_text(damage)
    with pytest.raises(BadKeyError, match=r"control\.key"):
        home.keys("control")
    assert (home.root / "control.key").read_text() == damage
