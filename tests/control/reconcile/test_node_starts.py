"""What nodes of each cloud are started with."""

from pathlib import Path

import pytest

from control.overlay.identity import OverlayIdentity
from control.overlay.invitation import OverlayInvitation
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.node_starts import NodeStarts, check_way_back
from tests.control.cloud.fake_cloud import FakeCloud

TOKEN = "hf_only_for_nodes"  # noqa: S105


def test_nodes_know_where_the_hub_is_and_a_token_for_it_is_seen_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds = {name: FakeCloud(name, {}) for name in ("aws", "local")}
    starts = NodeStarts(clouds, "10.0.0.1", 7000, 7001, "key", DaemonHome(tmp_path))
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert not starts["aws"].environment
    assert not starts["aws"].secrets
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    for start in starts.values():
        assert start.environment == {"HF_ENDPOINT": "https://hub.example"}
        assert start.secrets["HF_TOKEN"].reveal() == TOKEN
        assert TOKEN not in repr(start)
    assert {cloud: start.engines for cloud, start in starts.items()} == {
        "aws": {"torch", "vllm"},
        "local": {"torch", "vllm-stage", "echo", "components"},
    }


def test_nodes_of_an_overlay_find_the_hub_over_it_where_their_cloud_takes_one(tmp_path: Path) -> None:
    home = DaemonHome(tmp_path)
    invitation = OverlayInvitation(OverlayIdentity.of_file(home.overlay_key), "192.0.2.7")
    clouds = {name: FakeCloud(name, {}) for name in ("aws", "runpod", "local")}
    starts = NodeStarts(clouds, "192.0.2.7", 7000, 7001, "key", home, invitation)
    assert {cloud: start.overlay for cloud, start in starts.items()} == {
        "aws": invitation,
        "runpod": None,
        "local": None,
    }
    (hub,) = [each for each in starts["aws"].command if each.endswith(":7000")]
    assert hub == f"tcp://[{invitation.identity.hub.address}]:7000"
    assert "tcp://192.0.2.7:7000" in starts["runpod"].command


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_nothing_is_rented_that_would_look_for_the_control_plane_on_itself(address: str) -> None:
    with pytest.raises(ValueError, match="nodes at aws would look for the control plane at"):
        check_way_back("aws", address)


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1", "control.example"])
def test_any_other_address_may_be_reached(address: str) -> None:
    check_way_back("aws", address)
