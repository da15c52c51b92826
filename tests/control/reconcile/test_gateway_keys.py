"""Keys of gateways as files: what is let in before, while and after one takes the place of another."""

from pathlib import Path

import pytest

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from control.reconcile.daemon_home import DaemonHome


def test_both_keys_are_let_in_from_a_rotation_to_the_revocation_of_the_former(tmp_path: Path) -> None:
    home = DaemonHome.below(tmp_path)
    serving = home.gateway_keys()  # as the control plane has it, which runs all the while
    first = home.keys("gateway").public
    assert dict(serving) == {first: "gateway"}
    by_hand = DaemonHome.below(tmp_path).gateway_keys()
    assert by_hand.rotate() == "gateway-2"
    second = home.keys("gateway").public
    assert dict(serving) == {first: "gateway", second: "gateway-2"}
    assert by_hand.rotate() == "gateway-3"
    third = KeyPair.load(home.gateway_key).public
    assert serving.current == third
    by_hand.revoke("gateway")
    assert dict(serving) == {second: "gateway-2", third: "gateway-3"}
    assert home.gateway_key.stat().st_mode & 0o077 == 0
    again = DaemonHome.below(tmp_path).gateway_keys()  # after a restart
    assert dict(again) == dict(serving)


def test_the_key_that_gateways_have_and_unknown_ones_are_not_revoked(tmp_path: Path) -> None:
    keys = DaemonHome.below(tmp_path).gateway_keys()
    with pytest.raises(ValueError, match="rotate it first"):
        keys.revoke("gateway")
    keys.rotate()
    with pytest.raises(ValueError, match="gateway, gateway-2"):
        keys.revoke("gateway-7")
    assert len(keys) == 2


def test_a_damaged_list_changes_nothing_for_those_who_serve_by_it(tmp_path: Path) -> None:
    home = DaemonHome.below(tmp_path)
    keys = home.gateway_keys()
    keys.rotate()
    before = dict(keys)
    (home.root / "gateway-keys.json").write_text("{")
    assert dict(keys) == before
    with pytest.raises(BadKeyError, match=r"gateway-keys\.json"):
        home.gateway_keys()
