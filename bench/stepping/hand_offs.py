"""KV caches that leave stepped instances for others, over links that are busy with them."""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

from agents.scheduler.orders import Dispatch
from bench.stepping.clocks import send_part
from bench.stepping.stepped_instance import SteppedInstance
from bench.stepping.streams import HandOff, Piece
from templates_lib.values.placement import HAND_OFF_PIECES

_MOST_STAGES = 64


class HandOffs:
    def __init__(
        self,
        instances: Mapping[str, SteppedInstance],
        push: Callable[[float, int, Callable[[], None]], None],
        request: Callable[[HandOff], int | None],
        arrive: Callable[[HandOff, float], None],
        *,
        streams_kv: bool,
    ) -> None:
        """`push`: has something happen at a time; at one time in the order of the number. `request`: number of the one
        that a hand-off is for, None where it is over. `arrive`: all of it is there, or will be by then."""
        self._instances = instances
        self._push = push
        self._request = request
        self._arrive = arrive
        self._streams_kv = streams_kv

    def begin(self, source: SteppedInstance, order: Dispatch, now_s: float) -> None:
        station = source.life.station
        depth = len(station.stages)
        hand_off = HandOff(int(order.to.hand_off), source.life.id, order.to.public_key, order, depth, now_s)
        begin_s = now_s + station.hand_off_s
        if not self._streams_kv:
            self._at(now_s, hand_off, 0, partial(self._send_whole, hand_off, begin_s))
            return
        for stage in range(depth):
            self.send(Piece(hand_off, stage, 0, begin_s))

    def send(self, piece: Piece) -> None:
        """Have a piece be sent once it is computed."""
        send_s = self._instances[piece.of.source].prompts.send_s(piece)
        if send_s < inf:
            self._at(send_s, piece.of, piece.stage, partial(self._send_piece, piece, send_s))

    def _send_piece(self, piece: Piece, now_s: float) -> None:
        hand_off = piece.of
        self._send_part(hand_off, piece.stage, HAND_OFF_PIECES, now_s)
        if piece.number + 1 < HAND_OFF_PIECES:
            node = hand_off.order.nodes[piece.stage]
            free_s = self._instances[hand_off.source].clocks.sends_s[piece.stage][node]
            self.send(Piece(hand_off, piece.stage, piece.number + 1, free_s))
            return
        hand_off.unsent -= 1
        if not hand_off.unsent:
            self._arrive(hand_off, hand_off.there_s)

    def _send_whole(self, hand_off: HandOff, begin_s: float) -> None:
        for stage in range(hand_off.unsent):
            self._send_part(hand_off, stage, 1, begin_s)
        self._arrive(hand_off, hand_off.there_s)

    def _send_part(self, hand_off: HandOff, stage: int, pieces: int, begin_s: float) -> None:
        source, target = (self._instances[each].clocks for each in (hand_off.source, hand_off.target))
        order = hand_off.order
        end_s = send_part(source, order.nodes, target, order.target_nodes, stage, order.tokens, pieces, begin_s)
        hand_off.there_s = max(hand_off.there_s, end_s)

    def _at(self, at_s: float, hand_off: HandOff, stage: int, send: Callable[[], None]) -> None:
        request = self._request(hand_off)
        if request is not None:
            self._push(at_s, request * _MOST_STAGES + stage, partial(self._if_it_goes_on, hand_off, send))

    def _if_it_goes_on(self, hand_off: HandOff, send: Callable[[], None]) -> None:
        if self._request(hand_off) is not None:
            send()
