"""A node in no network is reached at the ports that its cloud publishes, and at nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.messages.to_gateway import Finished
from agents.node.published import PortBook, PublishedPort, published_ports
from tests.agents.node.sites import Site, play, until
from tests.agents.node.test_units import deploy, executor, gateway_of, request, until_ready
from tests.free_port import free_port

PUBLISHED = {"MEDLEY_NODE_PORTS": "7600 7601", "RUNPOD_PUBLIC_IP": "192.0.2.7", "RUNPOD_TCP_PORT_7600": "40012"}


def test_a_pod_knows_its_published_ports_from_its_first_process(tmp_path: Path) -> None:
    first = tmp_path / "environ"
    first.write_bytes(b"\0".join(f"{name}={value}".encode() for name, value in PUBLISHED.items()) + b"\0")
    asked = {"MEDLEY_NODE_PORTS": PUBLISHED["MEDLEY_NODE_PORTS"]}
    assert published_ports(asked, first) == (PublishedPort(7600, "tcp://192.0.2.7:40012"),)
    assert published_ports(PUBLISHED | {"RUNPOD_TCP_PORT_7601": "40013"}, tmp_path / "nothing") == (
        PublishedPort(7600, "tcp://192.0.2.7:40012"),
        PublishedPort(7601, "tcp://192.0.2.7:40013"),
    )
    (port, *_) = published_ports(PUBLISHED | {"RUNPOD_PUBLIC_IP": "2001:db8::7"}, tmp_path / "nothing")
    assert port.endpoint == "tcp://[2001:db8::7]:40012"
    assert published_ports({}, first) == ()


@pytest.mark.parametrize("given", [{"RUNPOD_PUBLIC_IP": ""}, {"RUNPOD_TCP_PORT_7600": ""}, {"RUNPOD_PUBLIC_IP": "pod"}])
def test_a_node_that_nobody_would_reach_says_so(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"published none|does not appear to be"):
        published_ports(PUBLISHED | given, tmp_path / "nothing")


@asynccontextmanager
async def forwarding(port: int) -> AsyncIterator[int]:
    """Forward connections to `port` of this machine, as a cloud's address translation does; the port outside."""
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        tasks.update(asyncio.create_task(each) for each in (pump(reader, back), pump(inner, writer)))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_executors_keep_a_port_each_until_there_is_none_left() -> None:
    book = PortBook([PublishedPort(7600, "tcp://192.0.2.7:40012"), PublishedPort(7601, "tcp://192.0.2.7:40013")])
    taken = [book.of(name) for name in ("a", "b", "a")]
    assert [each and each.number for each in taken] == [7600, 7601, 7600]
    with pytest.raises(ValueError, match="publishes 2 ports"):
        book.of("c")
    assert PortBook([]).of("a") is None


def test_gateways_reach_an_executor_at_its_published_port(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()

    async def scenario(site: Site) -> None:
        async with forwarding(port) as outside:
            monkeypatch.setenv("MEDLEY_NODE_PORTS", str(port))
            monkeypatch.setenv("RUNPOD_PUBLIC_IP", "127.0.0.1")
            monkeypatch.setenv(f"RUNPOD_TCP_PORT_{port}", str(outside))
            agent = site.start()
            await until(lambda: site.connected(agent))
            deploy(site, agent, executor("a"))
            await until_ready(site, agent, "a")
            said = site.board.scheduler("i1", "a")
            assert said is not None
            assert said.endpoint == f"tcp://127.0.0.1:{outside}"
            async with gateway_of(site, "a") as client:
                client.send(request(0, "a"))
                await client.until(client.ends)
                assert isinstance(client.ends()[0], Finished)

    play(site, scenario)
