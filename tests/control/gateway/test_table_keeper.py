"""What a gateway takes of a table: all models that it can serve, whatever is wrong with the rest, and keys at once."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agents.channels.keys import KeyPair
from bench.text_tables import text_model
from control.gateway import model_entry
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.metrics import GatewayMetrics
from control.gateway.published import AccessKey, Published, PublishedModel, write_published
from control.gateway.settings import GatewaySettings
from control.gateway.table_keeper import TableKeeper
from control.gateway.tasks.apps import Apps
from policies.routing_table import RoutedModel
from tests.control.gateway.world import byte_tokenizer

KEY = AccessKey("0123456789ab", "0" * 64, "default", None, None)


def kept(path: Path, scenario: Callable[[TableKeeper], Awaitable[None]]) -> None:
    async def run() -> None:
        metrics = GatewayMetrics()
        keys, counts = KeyPair.generate(), Counts.of_one()
        dispatcher = Dispatcher(keys, GatewaySettings(), metrics, Preprocessor(()), lambda _: None, counts)
        await scenario(TableKeeper(path, dispatcher, Apps(), metrics, lambda _: None))

    asyncio.run(run())


def publish(path: Path, version: int, tokenizers: dict[str, Path], *keys: AccessKey) -> None:
    models = tuple(PublishedModel(text_model(name), str(at), 1000, 0) for name, at in tokenizers.items())
    write_published(path, Published(version, {}, models, keys))


@pytest.mark.parametrize(
    "config", [{"chat_template": ["no", "pairs"]}, {"chat_template": "{% if %}"}, [], {"bos_token": 7}]
)
def test_odd_files_of_one_model_leave_the_rest_of_the_table_in_force(tmp_path: Path, config: object) -> None:
    good, odd = byte_tokenizer(tmp_path / "good"), byte_tokenizer(tmp_path / "odd")
    (odd / "tokenizer_config.json").write_text(json.dumps(config))
    publish(tmp_path / "table.json", 1, {"good": good, "odd": odd}, KEY)

    async def scenario(keeper: TableKeeper) -> None:
        await keeper.look()
        assert keeper.published is not None
        assert "good" in keeper._dispatcher.models
        assert set(keeper.access or ()) == {KEY.id}
        assert ("odd" in keeper.problem) == ("odd" not in keeper._dispatcher.models)

    kept(tmp_path / "table.json", scenario)


def test_a_revoked_key_is_refused_while_a_tokenizer_of_the_same_table_is_still_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, slow = byte_tokenizer(tmp_path / "good"), byte_tokenizer(tmp_path / "slow")
    table, begun, may_end = tmp_path / "table.json", threading.Event(), threading.Event()
    publish(table, 1, {"good": good}, KEY)

    async def scenario(keeper: TableKeeper) -> None:
        await keeper.look()
        load = keeper._load

        async def load_slowly(path: str) -> None:
            if path == str(slow):
                begun.set()
                await asyncio.to_thread(may_end.wait, 60)
            await load(path)

        monkeypatch.setattr(keeper, "_load", load_slowly)
        publish(table, 2, {"good": good, "slow": slow})
        looking = asyncio.create_task(keeper.look())
        assert await asyncio.to_thread(begun.wait, 60)
        assert keeper.access == {}
        may_end.set()
        await looking
        assert keeper.published is not None
        assert keeper.published.version == 2

    kept(table, scenario)


@pytest.mark.parametrize(
    "damage",
    [{"version": "x"}, {"models": [{"of": "a later release"}]}, {"addresses": {"e1": {"endpoint": "?"}}}],
    ids=["version", "model", "address"],
)
def test_a_key_that_is_revoked_by_a_table_that_cannot_be_read_is_refused(
    tmp_path: Path, damage: dict[str, object]
) -> None:
    table, good = tmp_path / "table.json", byte_tokenizer(tmp_path / "good")
    publish(table, 1, {"good": good}, KEY)

    async def scenario(keeper: TableKeeper) -> None:
        await keeper.look()
        publish(table, 2, {"good": good})
        table.write_text(json.dumps(json.loads(table.read_text()) | damage))
        await keeper.look()
        assert keeper.access == {}
        assert keeper.published is not None
        assert keeper.published.version == 1
        assert "good" in keeper._dispatcher.models
        table.write_text('{"version": 3, "access": [{"id": "a", ')  # half a file says nothing of keys
        await keeper.look()
        assert keeper.access == {}

    kept(table, scenario)


def test_a_model_that_the_gateway_cannot_serve_leaves_the_rest_of_the_table_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, tokenizer = tmp_path / "table.json", byte_tokenizer(tmp_path / "tokenizer")
    publish(table, 1, {"good": tokenizer, "odd": tokenizer, "other": tokenizer}, KEY)
    router_of = model_entry.router_of

    def refused(routing: RoutedModel, *former: object) -> object:
        if routing.id == "odd":
            raise ZeroDivisionError
        return router_of(routing, *former)  # type: ignore[arg-type]

    monkeypatch.setattr(model_entry, "router_of", refused)

    async def scenario(keeper: TableKeeper) -> None:
        await keeper.look()
        assert set(keeper._dispatcher.models) == {"good", "other"}
        assert "odd" in keeper.problem
        assert set(keeper.access or ()) == {KEY.id}

    kept(table, scenario)


def test_trouble_with_peppers_is_told_until_the_file_is_mended_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peppers = tmp_path / "peppers"
    peppers.write_text("1" * 40)
    monkeypatch.setenv("MEDLEY_PEPPER_FILE", str(peppers))
    publish(tmp_path / "table.json", 1, {}, KEY)

    async def scenario(keeper: TableKeeper) -> None:
        await keeper.look()
        before = keeper.peppers
        assert keeper.problem == ""
        peppers.unlink()
        await keeper.look()
        assert str(peppers) in keeper.problem
        publish(tmp_path / "table.json", 2, {}, KEY)  # a good table mends no peppers
        await keeper.look()
        assert (str(peppers) in keeper.problem, keeper.peppers) == (True, before)
        peppers.write_text("2" * 40)
        await keeper.look()
        assert (keeper.problem, keeper.peppers != before) == ("", True)

    kept(tmp_path / "table.json", scenario)
