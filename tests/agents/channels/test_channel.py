"""A listener and dialers over real sockets: who may speak, what is refused, how a loss is noticed."""

import asyncio
import logging
import stat
import time

import msgspec
import pytest
import zmq

from agents.channels.address import Address
from agents.channels.errors import BadKeyError, MessageTooBigError, PeerLostError, QueueFullError, RefusedError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.settings import ChannelSettings
from agents.messages.session import NEWEST_PROTOCOL, Hello
from agents.messages.to_gateway import Status
from agents.messages.to_scheduler import AskStatus, Cancel, Drain, Generate, Sampling, ToScheduler
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Ends, Heard, Seen
from tests.free_port import free_address

STATUS = Status("ready", 1, 2, 30, 4)


def generate(prompt: tuple[int, ...]) -> Generate:
    return Generate(7, "req", "m", prompt, (), 5, (2,), Sampling(0.0, 1.0, 0, 0), 10.0)


def test_messages_arrive_in_order_and_the_peer_is_named_by_its_key():
    async def scenario():
        async with Ends() as ends:
            seen = Seen()
            listener = ends.listen()
            dialer = ends.dial(listener.endpoint, seen)
            ends.heard.on_message = lambda peer, _message: listener.send(peer, STATUS)
            await dialer.wait_up(PATIENCE_S)
            sent = [generate((1, 2, 3)), *(Cancel(i) for i in range(1000)), Drain(), AskStatus()]
            for message in sent:
                dialer.send(message)
            await seen.until(lambda: len(seen.messages) == len(sent))
            assert ends.heard.messages == sent
            assert set(seen.messages) == {STATUS}
            assert [(p.name, p.role, p.protocol) for p in ends.heard.peers] == [
                ("gateway-1", "gateway", NEWEST_PROTOCOL)
            ]

    asyncio.run(scenario())


def test_a_wrong_client_key_is_refused_on_both_sides_and_harms_nobody(caplog: pytest.LogCaptureFixture):
    async def scenario():
        async with Ends() as ends:
            seen = Seen()
            listener = ends.listen()
            stranger = ends.dial(listener.endpoint, Seen(), keys=KeyPair.generate())
            with pytest.raises(RefusedError, match="does not know our key"):
                await stranger.wait_up(PATIENCE_S)
            friend = ends.dial(listener.endpoint, seen)
            await friend.wait_up(PATIENCE_S)
            friend.send(AskStatus())
            await ends.heard.until(lambda: ends.heard.messages == [AskStatus()])
            assert len(ends.heard.peers) == 1

    caplog.set_level(logging.WARNING)
    asyncio.run(scenario())
    assert "is not on the list" in caplog.text


def test_a_server_with_another_key_is_not_believed():
    async def scenario():
        async with Ends() as ends:
            listener = ends.listen()
            dialer = ends.dial(listener.endpoint, Seen(), server_key=KeyPair.generate().public)
            with pytest.raises((RefusedError, PeerLostError)):
                await dialer.wait_up(1)
            assert ends.heard.peers == []

    asyncio.run(scenario())


def test_a_peer_without_encryption_is_refused():
    async def scenario():
        async with Ends() as ends:
            listener = ends.listen()
            with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
                plain.linger = 0
                plain.connect(listener.endpoint)
                plain.send(msgspec.msgpack.encode(Hello(1, 1, "gateway")))
                dialer = ends.dial(listener.endpoint, Seen())
                await dialer.wait_up(PATIENCE_S)
            assert [peer.name for peer in ends.heard.peers] == ["gateway-1"]

    asyncio.run(scenario())


def test_another_protocol_version_is_refused_and_logged(caplog: pytest.LogCaptureFixture):
    async def scenario():
        async with Ends() as ends:
            listener = ends.listen()
            dialer = ends.dial(listener.endpoint, Seen(), protocols=(7, 9))
            with pytest.raises(RefusedError, match=f"protocol 7 to 9 offered, we speak 1 to {NEWEST_PROTOCOL}"):
                await dialer.wait_up(PATIENCE_S)
            assert ends.heard.peers == []

    asyncio.run(scenario())
    assert "protocol 7 to 9 offered" in caplog.text


def test_a_newer_peer_that_still_speaks_ours_is_welcome():
    async def scenario():
        async with Ends() as ends:
            dialer = ends.dial(ends.listen().endpoint, Seen(), protocols=(1, NEWEST_PROTOCOL + 1))
            await dialer.wait_up(PATIENCE_S)
            assert ends.heard.peers[0].protocol == NEWEST_PROTOCOL

    asyncio.run(scenario())


@pytest.mark.parametrize("payload", [b"", b"\xc1garbage", msgspec.msgpack.encode(["cancel", -1]), b"\x80"])
def test_a_malformed_message_costs_its_sender_the_session_and_nobody_else_anything(payload: bytes):
    async def scenario():
        async with Ends() as ends:
            seen, other_seen = Seen(), Seen()
            listener = ends.listen()
            dialer, other = ends.dial(listener.endpoint, seen), ends.dial(listener.endpoint, other_seen)
            await dialer.wait_up(PATIENCE_S)
            await other.wait_up(PATIENCE_S)
            dialer._socket.send(payload)
            await seen.until(lambda: seen.ups == 2)
            assert "malformed" in seen.downs[0]
            assert other_seen.downs == []
            assert ends.heard.messages == []

    asyncio.run(scenario())


def test_too_big_a_message_is_not_sent_and_too_big_a_one_from_outside_is_not_read():
    async def scenario():
        async with Ends(ChannelSettings(max_message_bytes=2000, heartbeat_s=0.05, lost_after_s=1)) as ends:
            seen, _, dialer = await ends.met()
            with pytest.raises(MessageTooBigError):
                dialer.send(generate(tuple(range(2000))))
            dialer._socket.send(bytes(3000))
            await seen.until(lambda: seen.ups == 2)
            assert ends.heard.messages == []

    asyncio.run(scenario())


def test_a_full_queue_is_an_error_not_a_wait():
    async def scenario():
        settings = ChannelSettings(queue_messages=4, heartbeat_s=0.05, lost_after_s=5)
        async with Ends(settings) as ends:
            dialer = ends.dial(ends.listen().endpoint, Seen())
            await dialer.wait_up(PATIENCE_S)

            def flood() -> None:
                for _ in range(10_000):  # the loop never runs, so nobody reads
                    dialer.send(generate(tuple(range(5000))))

            with pytest.raises(QueueFullError):
                flood()

    asyncio.run(scenario())


def test_a_listener_that_goes_away_is_noticed_and_found_again():
    async def scenario():
        async with Ends() as ends:
            seen, listener, dialer = await ends.met(free_address())
            listener.close()
            ends.opened.remove(listener)
            await seen.until(lambda: seen.downs)
            with pytest.raises(PeerLostError):
                dialer.send(AskStatus())
            ends.listen(listener.endpoint)
            await dialer.wait_up(PATIENCE_S)
            dialer.send(AskStatus())
            await ends.heard.until(lambda: ends.heard.messages)

    asyncio.run(scenario())


def test_a_silent_dialer_is_dropped_and_has_to_say_hello_again():
    async def scenario():
        async with Ends() as ends:
            seen, listener, dialer = await ends.met()
            dialer._timer.cancel()  # its heart stops, its connection stays
            await ends.heard.until(lambda: ends.heard.lost)
            assert "silent" in ends.heard.lost[0]
            with pytest.raises(PeerLostError):
                listener.send(ends.heard.peers[0], STATUS)
            dialer.send(AskStatus())
            await seen.until(lambda: seen.ups == 2)
            assert seen.downs == ["say hello first"]
            assert ends.heard.messages == []

    asyncio.run(scenario())


def test_a_dialer_that_ends_is_noticed_at_once_behind_its_last_words():
    """Long before silence would tell; others that come and go over the same descriptors are not taken for it."""

    async def scenario():
        async with Ends(settings=ChannelSettings(heartbeat_s=10, lost_after_s=600)) as ends:
            listener = ends.listen()
            stays = ends.dial(listener.endpoint, Seen())
            await stays.wait_up(PATIENCE_S)
            for n in range(1, 20):
                goes = ends.dial(listener.endpoint, Seen())
                await goes.wait_up(PATIENCE_S)
                goes.send(Cancel(n))
                goes.close()
            await ends.heard.until(lambda: len(ends.heard.lost) == 19)
            assert set(ends.heard.lost) == {"disconnected"}
            assert sorted(m.attempt for m in ends.heard.messages) == list(range(1, 20))
            assert [peer.connection for peer in listener.peers] == [ends.heard.peers[0].connection]

    asyncio.run(scenario())


def test_a_silent_listener_is_noticed_by_time_out():
    async def scenario():
        async with Ends() as ends:
            seen, listener, _ = await ends.met()
            listener._pump.close()  # hung: connected, but reads nothing
            await seen.until(lambda: seen.downs)
            assert "silent" in seen.downs[0]

    asyncio.run(scenario())


def test_whoever_was_stopped_itself_does_not_take_that_for_the_silence_of_others():
    """As when its machine is moved to another host."""

    async def scenario():
        async with Ends() as ends:
            seen, _, dialer = await ends.met()
            for n in range(3):
                time.sleep(2 * FAST.lost_after_s)  # neither end runs
                dialer.send(Cancel(n))
                await ends.heard.until(lambda n=n: len(ends.heard.messages) == n + 1)
            assert (seen.ups, seen.downs, ends.heard.lost) == (1, [], [])

    asyncio.run(scenario())


def test_a_key_that_comes_onto_the_list_later_is_welcome_then():
    async def scenario():
        async with Ends() as ends:
            seen, late = Seen(), KeyPair.generate()
            listener = ends.listen()
            dialer = ends.dial(listener.endpoint, seen, keys=late)
            with pytest.raises(RefusedError, match="does not know our key"):
                await dialer.wait_up(PATIENCE_S)
            listener.allow({late.public: "gateway-2"})
            await seen.until(lambda: seen.ups)
            dialer.send(AskStatus())
            await ends.heard.until(lambda: ends.heard.messages)
            assert dialer.refusal is None

    asyncio.run(scenario())


def test_revoking_a_key_drops_its_owner_and_keeps_the_others():
    async def scenario():
        async with Ends() as ends:
            seen, kept_seen, kept_keys = Seen(), Seen(), KeyPair.generate()
            listener = ends.listen()
            listener.allow({ends.client.public: "gateway-1", kept_keys.public: "gateway-2"})
            dialer = ends.dial(listener.endpoint, seen)
            kept = ends.dial(listener.endpoint, kept_seen, keys=kept_keys)
            await dialer.wait_up(PATIENCE_S)
            await kept.wait_up(PATIENCE_S)
            listener.allow({kept_keys.public: "gateway-2"})
            assert ends.heard.lost == ["its key was revoked"]
            assert [peer.name for peer in listener.peers] == ["gateway-2"]
            await seen.until(lambda: seen.downs)
            kept.send(AskStatus())
            await ends.heard.until(lambda: ends.heard.messages)
            assert seen.ups == 1

    asyncio.run(scenario())


def test_an_error_in_a_handler_does_not_end_the_channel(caplog: pytest.LogCaptureFixture):
    async def scenario():
        async with Ends() as ends:
            dialer = ends.dial(ends.listen().endpoint, Seen())
            ends.heard.on_message = lambda _peer, message: 1 / 0 if message == Drain() else None
            await dialer.wait_up(PATIENCE_S)
            dialer.send(Drain())
            dialer.send(AskStatus())
            await ends.heard.until(lambda: ends.heard.messages == [Drain(), AskStatus()])

    asyncio.run(scenario())
    assert "ZeroDivisionError" in caplog.text


def test_an_address_in_use_is_an_error_with_its_name():
    async def scenario():
        async with Ends() as ends:
            endpoint = ends.listen().endpoint
            with pytest.raises(OSError, match=endpoint):
                Listener(endpoint, KeyPair.generate(), {}, ToScheduler, Heard(), FAST)

    asyncio.run(scenario())


def test_keys_are_kept_private_and_checked(tmp_path):
    path = tmp_path / "gateway.key"
    keys = KeyPair.generate()
    keys.save(path)
    assert KeyPair.load(path) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.secret not in repr(keys)
    with pytest.raises(FileExistsError):
        keys.save(path)
    path.write_text('{"public": "x", "secret": 3}')
    with pytest.raises(BadKeyError, match=r"gateway\.key"):
        KeyPair.load(path)
    with pytest.raises(BadKeyError, match="does not belong"):
        KeyPair(KeyPair.generate().public, keys.secret)
    with pytest.raises(BadKeyError, match="40 characters"):
        Address("tcp://127.0.0.1:1", "short")


@pytest.mark.parametrize("endpoint", ["", "127.0.0.1:80", "tcp://host", "tcp://host:0", "tcp://a b:1", "tcp://h:99999"])
def test_an_address_that_cannot_be_dialled_is_refused(endpoint: str):
    with pytest.raises(ValueError, match=r"tcp://host:port"):
        Address(endpoint, KeyPair.generate().public)


@pytest.mark.needs("ipv6")
def test_ipv6_is_spoken():
    async def scenario():
        async with Ends() as ends:
            seen, listener = Seen(), ends.listen("tcp://[::1]:*")
            ends.heard.on_message = lambda peer, _message: listener.send(peer, STATUS)
            dialer = ends.dial(listener.endpoint, seen)
            await dialer.wait_up(PATIENCE_S)
            dialer.send(AskStatus())
            await seen.until(lambda: seen.messages)
            assert listener.endpoint.startswith("tcp://[::1]:")
            assert (ends.heard.messages, seen.messages) == ([AskStatus()], [STATUS])

    asyncio.run(scenario())
