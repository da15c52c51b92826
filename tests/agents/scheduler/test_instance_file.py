"""A file that a scheduler cannot be started with is refused with its name and what is wrong in it."""

from pathlib import Path

import msgspec
import pytest

from agents.scheduler.instance_file import (
    BadInstanceFileError,
    InstanceFile,
    allow_gateways,
    read_instance_file,
    write_instance_file,
)
from tests.agents.scheduler.fake_stages import layout

GOOD = InstanceFile(layout((1.0,), (0.5, 0.5)), {"k": "gateway"}, {"a": "0.0", "b": "1.0", "c": "1.1"})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_bytes(msgspec.json.encode(GOOD))
    assert read_instance_file(path) == GOOD


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "truncated"),
        (b"{}", "layout"),
        (msgspec.json.encode(GOOD).replace(b'"weight":1.0', b'"weight":0'), "positive"),
        (msgspec.json.encode(GOOD).replace(b'"weight":1.0', b'"weight":"1"'), "weight"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "instance.json"
    path.write_bytes(content)
    with pytest.raises(BadInstanceFileError, match=rf"instance\.json.*{reason}"):
        read_instance_file(path)
    with pytest.raises(BadInstanceFileError, match="absent"):
        read_instance_file(tmp_path / "absent")


def test_gateways_are_those_that_the_file_has_now(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    write_instance_file(path, GOOD)
    instance = read_instance_file(path)
    allow_gateways(path, {"k": "gateway", "l": "gateway-2"})
    assert dict(instance.gateways) == {"k": "gateway", "l": "gateway-2"}
    assert read_instance_file(path).layout == GOOD.layout
    path.write_bytes(b"{")
    assert dict(instance.gateways) == {"k": "gateway", "l": "gateway-2"}


def test_items_are_of_one_look_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    write_instance_file(path, GOOD)
    gateways = read_instance_file(path).gateways
    allow_gateways(path, {"k": "gateway", "l": "gateway-2"})
    items = iter(gateways.items())
    first = next(items)
    allow_gateways(path, {"m": "gateway-3"})
    assert dict((first, *items)) == {"k": "gateway", "l": "gateway-2"}
    assert dict(gateways.items()) == {"m": "gateway-3"}


def test_gateways_that_change_while_the_file_is_read_first_are_seen_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "instance.json"
    write_instance_file(path, GOOD)
    read_bytes = Path.read_bytes

    def replaced_behind_it(self: Path) -> bytes:
        content = read_bytes(self)
        monkeypatch.setattr(Path, "read_bytes", read_bytes)
        allow_gateways(path, {"m": "gateway-3"})
        return content

    monkeypatch.setattr(Path, "read_bytes", replaced_behind_it)
    assert dict(read_instance_file(path).gateways.items()) == {"m": "gateway-3"}
