"""Two schedulers' desks over real channels, with nodes that only take down what they are told."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.kv_shape import KvShape, StageLayers
from agents.messages.to_kv_source import Accept, Decline, KvTarget, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.scheduler.hand_off_desk import HandOffDesk
from agents.scheduler.hand_offs import PeerMessage
from agents.scheduler.orders import Dispatch
from agents.scheduler.settings import SchedulerSettings
from agents.scheduler.workers import WorkerPlace
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Recorded
from tests.agents.scheduler.fake_stages import asked

PATIENT = replace(FAST, lost_after_s=PATIENCE_S)
"""Nobody is given up, however busy the machine is."""
PREFILL_SHAPE = KvShape((StageLayers(0, 4, 1), StageLayers(4, 2, 2)), 2, 16, "torch.float32")
DECODE_SHAPE = KvShape((StageLayers(0, 1, 1), StageLayers(1, 5, 2)), 2, 16, "torch.bfloat16")


class Side(Recorded):
    """One instance: its desk, what its nodes are told and what its scheduler hears."""

    def __init__(self, shape: KvShape, network: str, meets_at: str, channel: ChannelSettings) -> None:
        super().__init__()
        self.keys = KeyPair.generate()
        self.told: list[tuple[WorkerPlace, msgspec.Struct]] = []
        self.heard: list[Any] = []
        settings = SchedulerSettings(network=network, channel=channel, pair_idle_s=0.2)
        self.desk = HandOffDesk("127.0.0.1", self.keys, self._tell, self, settings)
        self.desk.begin(shape, (meets_at, 1))

    def other_leg(self) -> OtherLeg:
        """As the other side gets it from a gateway."""
        return OtherLeg("other", self.desk.endpoint, self.keys.public, "h1")

    def heard_target(self, key: str, message: Accept | Taken | Decline) -> None:
        self._hear("target", key, message)

    def heard_source(self, key: str, message: Offer | Withdraw) -> None:
        self._hear("source", key, message)

    def peer_back(self, key: str) -> None:
        self._hear("back", key)

    def peer_lost(self, key: str, reason: str) -> None:
        self._hear("lost", key, reason)

    def hand_off_stuck(self, runs: set[int], reason: str) -> None:
        self._hear("stuck", runs, reason)

    def of(self, kind: type) -> list[Any]:
        return [(place, message) for place, message in self.told if isinstance(message, kind)]

    def _tell(self, place: WorkerPlace, message: msgspec.Struct) -> None:
        self.told.append((place, message))
        self.note()

    def _hear(self, *event: Any) -> None:
        self.heard.append(event)
        self.note()


def play(
    scenario: Callable[[Side, Side], Any],
    decode_shape: KvShape = DECODE_SHAPE,
    networks: tuple[str, str] = ("", ""),
    meets_at: str = "127.0.0.1",
    channel: ChannelSettings = PATIENT,
) -> None:
    async def main() -> None:
        prefill = Side(PREFILL_SHAPE, networks[0], "127.0.0.1", channel)
        decode = Side(decode_shape, networks[1], meets_at, channel)
        try:
            await scenario(prefill, decode)
        finally:
            prefill.desk.close()
            decode.desk.close()

    asyncio.run(main())


async def meet(prefill: Side, decode: Side) -> None:
    """Both get their leg; the offer gets through."""
    prefill.desk.meet(asked(1, leg=Leg.PREFILL, peer=decode.other_leg()))
    decode.desk.meet(asked(1, leg=Leg.DECODE, peer=prefill.other_leg()))
    prefill.desk.say(PeerMessage(decode.other_leg(), Offer("h1", 3, 9)))
    await decode.until(lambda: ("source", prefill.keys.public, Offer("h1", 3, 9)) in decode.heard)


async def send(prefill: Side, decode: Side) -> None:
    decode.desk.say(PeerMessage(prefill.other_leg(), Accept("h1", 70, (0, 1))))
    await prefill.until(lambda: ("target", decode.keys.public, Accept("h1", 70, (0, 1))) in prefill.heard)
    prefill.desk.dispatch(Dispatch(7, (0, 1), 3, decode.other_leg(), 70, (0, 1)))


def test_an_accepted_run_goes_between_all_nodes_that_hold_the_same_layers():
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        await send(prefill, decode)
        sent = [(place, (m.run, m.target_run, m.tokens, m.first_layer, m.layers)) for place, m in prefill.of(SendKv)]
        assert sent == [((0, 0, 0), (7, 70, 3, 0, 1)), ((0, 0, 0), (7, 70, 3, 1, 3)), ((1, 1, 0), (7, 70, 3, 4, 2))]
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 3)
        ours, theirs = prefill.of(OpenKvLink), decode.of(OpenKvLink)
        assert [place for place, _ in theirs] == [(0, 0, 0), (1, 1, 0), (1, 1, 0)]
        assert [m.link for _, m in ours] == [m.link for _, m in theirs]
        assert [m.epoch for _, m in ours] == [m.epoch for _, m in theirs]
        assert {(m.sends, m.sender_dtype) for _, m in ours} == {(True, "torch.float32")}
        assert {(m.sends, m.sender_dtype) for _, m in theirs} == {(False, "torch.float32")}

    play(scenario)


def test_a_link_that_breaks_is_opened_anew_at_both_ends_and_given_up_after_three_failures_in_a_row():
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        await send(prefill, decode)
        (_, link), *_ = prefill.of(OpenKvLink)
        first = link.epoch
        for epoch, has_progressed in ((0, False), (1, True), (2, False), (2, False), (3, False)):
            prefill.desk.link_broke(KvLinkBroken(link.link, first + epoch, has_progressed, "gone"))
        epochs = [first, first + 1, first + 2, first + 3]
        assert [m.epoch for _, m in prefill.of(OpenKvLink) if m.link == link.link] == epochs
        await decode.until(lambda: [m.epoch for _, m in decode.of(OpenKvLink) if m.link == link.link] == epochs)
        assert prefill.heard[-1] == ("stuck", {7}, "no KV cache gets to other: gone")
        assert prefill.of(CloseKvLink) == [((0, 0, 0), CloseKvLink(link.link))]
        prefill.desk.release(7)
        await send(prefill, decode)
        _, again = prefill.of(OpenKvLink)[-1]
        assert (again.link, again.epoch) == (link.link, first + 4), "another request tries again"

    play(scenario)


def test_a_lost_connection_is_made_up_for():
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        listener = decode.desk._sources._listener
        listener.drop(listener.peers[0], "lost")
        await prefill.until(lambda: ("back", decode.keys.public) in prefill.heard)
        prefill.desk.say(PeerMessage(decode.other_leg(), Offer("h1", 3, 9)))
        await decode.until(lambda: len(decode.heard) == 2)
        assert not any(event[0] == "lost" for event in (*prefill.heard, *decode.heard))

    play(scenario)


def test_a_peer_that_is_gone_is_lost_to_either_side():
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        await send(prefill, decode)
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 3)
        prefill.desk.close()
        await decode.until(lambda: any(event[:2] == ("lost", prefill.keys.public) for event in decode.heard))
        assert len(decode.of(CloseKvLink)) == 3

    play(scenario, channel=FAST)


def test_a_decode_instance_that_is_not_there_is_lost_with_a_reason():
    async def scenario(prefill: Side, decode: Side) -> None:
        decode.desk.close()
        prefill.desk.say(PeerMessage(decode.other_leg(), Offer("h1", 3, 9)))
        await prefill.until(lambda: prefill.heard)
        assert prefill.heard == [("lost", decode.keys.public, "other is out of reach")]

    play(scenario, channel=FAST)


def test_who_was_not_named_by_a_gateway_is_not_let_in():
    async def scenario(prefill: Side, decode: Side) -> None:
        prefill.desk.say(PeerMessage(decode.other_leg(), Offer("h1", 3, 9)))
        await prefill.until(lambda: prefill.heard)
        (lost,) = prefill.heard
        assert "does not know our key" in lost[2]
        assert decode.heard == []

    play(scenario, channel=FAST)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kv_heads": 8}, "KV heads and their size are 2 and 16 in the prefill instance, 8 and 16"),
        ({"dtype": "torch.float8_e4m3fn"}, "a KV cache in torch.float8_e4m3fn cannot be handed over"),
        ({"stages": (StageLayers(0, 7, 1),)}, "one instance holds 6 layers, the other 7"),
        ({"stages": (StageLayers(1, 5, 1),)}, "no consecutive layers"),
    ],
)
def test_caches_that_do_not_fit_each_other_are_refused_with_the_difference(change: dict[str, Any], reason: str):
    async def scenario(prefill: Side, decode: Side) -> None:
        decode.desk.meet(asked(1, leg=Leg.DECODE, peer=prefill.other_leg()))
        prefill.desk.say(PeerMessage(decode.other_leg(), Offer("h1", 3, 9)))
        await prefill.until(lambda: prefill.heard)
        kind, key, why = prefill.heard[0]
        assert (kind, key) == ("lost", decode.keys.public)
        assert reason in why

    play(scenario, msgspec.structs.replace(DECODE_SHAPE, **change), channel=FAST)


def test_those_with_nothing_to_hand_off_for_long_part_and_meet_again():
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        await send(prefill, decode)
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 3)
        async with asyncio.timeout(PATIENCE_S):
            while not (prefill.of(CloseKvLink) and decode.of(CloseKvLink)):
                for side in (prefill, decode):
                    side.desk.part(lambda _key: False)
                await asyncio.sleep(0)
        for side in (prefill, decode):
            assert {m.link for _, m in side.of(CloseKvLink)} == {m.link for _, m in side.of(OpenKvLink)}
            side.heard.clear()
            side.told.clear()
        await meet(prefill, decode)
        await send(prefill, decode)
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 3)
        assert [m.link for _, m in prefill.of(OpenKvLink)] == [m.link for _, m in decode.of(OpenKvLink)]
        assert len(prefill.of(SendKv)) == 3

    play(scenario)


def test_an_address_that_can_be_none_is_refused_and_harms_no_other():
    async def scenario(prefill: Side, decode: Side) -> None:
        for leg in (Leg.PREFILL, Leg.DECODE):
            with pytest.raises(BadKeyError):
                prefill.desk.meet(asked(1, leg=leg, peer=OtherLeg("other", "tcp://h:1", "'" * 40, "h2")))
        with pytest.raises(ValueError, match="endpoint must be"):
            prefill.desk.meet(asked(1, leg=Leg.PREFILL, peer=OtherLeg("other", "ipc://x", "k" * 40, "h2")))
        await meet(prefill, decode)
        await meet(decode, prefill)

    play(scenario)


def test_an_instance_of_the_release_before_is_told_of_a_prompt_only_when_it_is_whole():
    async def scenario(prefill: Side, decode: Side) -> None:
        sources = decode.desk._sources
        say = sources.say

        def said_before(key: str, message: msgspec.Struct) -> None:
            """Without what the release before does not know of."""
            say(key, msgspec.structs.replace(message, streams=False) if isinstance(message, KvTarget) else message)

        sources.say = said_before
        prefill.desk.meet(asked(1, leg=Leg.PREFILL, peer=decode.other_leg()))
        decode.desk.meet(asked(1, leg=Leg.DECODE, peer=prefill.other_leg()))
        for message in (Offer("h1", 3, None), Withdraw("h1", is_early=True), Offer("h1", 3, 9), Withdraw("h1")):
            prefill.desk.say(PeerMessage(decode.other_leg(), message))
        await decode.until(lambda: len(decode.heard) == 2)
        assert [message for _, _, message in decode.heard] == [Offer("h1", 3, 9), Withdraw("h1")]

    play(scenario)


def test_an_instance_of_today_is_told_of_a_prompt_as_it_begins():
    async def scenario(prefill: Side, decode: Side) -> None:
        prefill.desk.meet(asked(1, leg=Leg.PREFILL, peer=decode.other_leg()))
        decode.desk.meet(asked(1, leg=Leg.DECODE, peer=prefill.other_leg()))
        told = [Offer("h1", 3, None), Withdraw("h1", is_early=True)]
        for message in told:
            prefill.desk.say(PeerMessage(decode.other_leg(), message))
        await decode.until(lambda: len(decode.heard) == 2)
        assert [message for _, _, message in decode.heard] == told

    play(scenario)


@pytest.mark.parametrize(
    ("networks", "meets_at", "is_encrypted"),
    [
        (("aws/us-east-2", "aws/us-east-2"), "10.0.0.7", False),
        (("", ""), "192.168.3.4", False),
        (("aws/us-east-2", "gcp"), "10.0.0.7", True),
        (("aws/us-east-2", "aws/us-east-1"), "10.0.0.7", True),
        (("", ""), "8.8.8.8", True),
        (("owned/hall-a", "owned/hall-a"), "8.8.8.8", True),  # one zone, whose hosts have public addresses
    ],
)
def test_links_that_leave_the_private_network_are_given_a_secret_each(
    networks: tuple[str, str], meets_at: str, is_encrypted: bool
) -> None:
    async def scenario(prefill: Side, decode: Side) -> None:
        await meet(prefill, decode)
        await send(prefill, decode)
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 3)
        ours, theirs = ([m.secret for _, m in side.of(OpenKvLink)] for side in (prefill, decode))
        assert ours == theirs
        assert (len(set(ours)), {len(each) for each in ours}) == ((3, {64}) if is_encrypted else (1, {0}))
        _, first = prefill.of(OpenKvLink)[0]
        prefill.desk.link_broke(KvLinkBroken(first.link, first.epoch, True, "test"))
        await decode.until(lambda: len(decode.of(OpenKvLink)) == 4)
        again = prefill.of(OpenKvLink)[-1][1].secret
        assert (again == decode.of(OpenKvLink)[-1][1].secret, again in ours) == (True, not is_encrypted)

    play(scenario, networks=networks, meets_at=meets_at)


def test_nothing_leaves_in_the_clear_for_one_of_the_release_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = lambda *given, **named: KvTarget(*given, **{**named, "encrypts": False})  # noqa: E731
    monkeypatch.setattr("agents.scheduler.kv_sources.KvTarget", before)

    async def scenario(prefill: Side, decode: Side) -> None:
        prefill.desk.meet(asked(1, leg=Leg.PREFILL, peer=decode.other_leg()))
        decode.desk.meet(asked(1, leg=Leg.DECODE, peer=prefill.other_leg()))
        await prefill.until(lambda: [event for event in prefill.heard if event[0] == "lost"])
        assert "does not encrypt" in prefill.heard[-1][2]
        assert not prefill.of(OpenKvLink)

    play(scenario, networks=("aws/us-east-2", "gcp"), channel=FAST)
