"""A stage worker of the release before hands over to one of today, and takes from it: its end of a link is written out
here, byte by byte, and must not follow what becomes of today's."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch

from agents.engines.kv_part import KvPart
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import accept, connect
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.exchanges import HandOver

HEADER, ANSWER = struct.Struct("<9q"), struct.Struct("<qq?")
"""Run, index, whether an answer is wanted, and six extents of a chunk; run, index, and whether more is wanted."""
STALL_S = 20.0
ANSWERED = 4
SETTINGS = HandOffSettings(chunk_bytes=3000, answered_chunks=ANSWERED, stall_s=STALL_S)
TOKENS, RUN = 200, 2


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("qwen3")
    save_model("qwen3", folder)
    return folder


@contextmanager
def order(at: HandOver, epoch: int, *, sends: bool) -> Iterator[LinkEnd]:
    """Has today's worker open a link, and is the end of the worker before."""
    place = at._rendezvous.host, at._rendezvous.port
    worker = (at.senders if sends else at.receivers)[0]
    worker.obey(OpenKvLink("L", epoch, sends, *place, str(at.dtype)))
    name = f"kv L {epoch}"
    end = accept(name, place, "127.0.0.1", STALL_S) if sends else connect(name, place, STALL_S)
    yield end
    end.close()


def take_chunk(end: LinkEnd, at: HandOver) -> tuple[int, int, bool, bytes]:
    run, index, wants_answer, *extents = HEADER.unpack(end.receive(HEADER.size))
    facts = at.source.stages[0].facts
    got = bytearray(KvPart(*extents).kv_bytes(facts.head_dim, at.dtype))
    assert end.receive_piece(len(got), lambda: nullcontext((memoryview(got),)))
    return run, index, bool(wants_answer), bytes(got)


def test_what_is_sent_waits_for_answers_and_goes_on_behind_the_last(checkpoint: Path) -> None:
    with HandOver(checkpoint, (6,), (6,), SETTINGS) as at:
        at.prefill(1, prompt_of(TOKENS))
        at.senders[0].obey(SendKv("L", 1, RUN, TOKENS, 0, LAYERS))
        at.senders[0].obey(SendKv("L", 1, RUN + 1, TOKENS, 0, LAYERS))
        with order(at, 1, sends=True) as end:
            chunks = [take_chunk(end, at) for _ in range(2 * ANSWERED)]
            assert [chunk[:3] for chunk in chunks] == [(RUN, n, n % ANSWERED == 3) for n in range(2 * ANSWERED)]
            end.send(ANSWER.pack(RUN, ANSWERED - 1, True))
            assert take_chunk(end, at)[1] == 2 * ANSWERED, "two answers may be out, and no more"
        at.wait(lambda: at.broken)
        assert at.broken[0].has_progressed
        with order(at, 2, sends=True) as end:
            again: list[tuple[int, int, bool, bytes]] = []
            moved = sum(len(chunk[3]) for chunk in chunks[:ANSWERED])
            while moved < at.kv_bytes(TOKENS):
                again.append(take_chunk(end, at))
                moved += len(again[-1][3])
                if again[-1][2]:
                    end.send(ANSWER.pack(*again[-1][:2], True))
            assert [chunk[:2] for chunk in again] == [(RUN, n) for n in range(ANSWERED, ANSWERED + len(again))]
            assert again[:ANSWERED] == chunks[ANSWERED:]
            assert again[-1][2], "the last is to be answered"
            assert take_chunk(end, at)[:2] == (RUN + 1, 0)
            end.send(ANSWER.pack(RUN + 1, 0, False))  # answered, though nobody asked: it is not wanted
            following = [take_chunk(end, at) for _ in range(ANSWERED - 1)]
            assert {chunk[0] for chunk in following} == {RUN + 1}
        at.senders[0].obey(CloseKvLink("L"))


def test_what_comes_is_answered_in_turn_and_taken_once(checkpoint: Path) -> None:
    """The sender before sends again what it has not heard of; all of it together is the whole cache."""
    with HandOver(checkpoint, (6,), (6,), SETTINGS) as at:
        prefilled = at.prefill(1, prompt_of(TOKENS))
        at.reserve(RUN, TOKENS)
        facts = at.source.stages[0].facts
        parts = [
            KvPart(layer, 1, facts.first_kv_head, facts.kv_heads, first, 5)
            for layer in range(LAYERS)
            for first in range(0, TOKENS, 5)
        ]

        def send(end: LinkEnd, index: int, part: KvPart) -> None:
            wants_answer = index % ANSWERED == 3 or part is parts[-1]
            extents = part.first_layer, 1, part.first_head, part.heads, part.first_token, part.tokens
            out = torch.empty(part.shape(facts.head_dim), dtype=at.dtype)
            at.source.stages[0].export_kv("1", part, out)
            raw = memoryview(out.numpy()).cast("B")
            end.send_piece(HEADER.pack(RUN, index, wants_answer, *extents), len(raw), lambda: nullcontext((raw,)))
            if wants_answer:
                assert ANSWER.unpack(end.receive(ANSWER.size)) == (RUN, index, True)

        with order(at, 1, sends=False) as end:
            for index, part in enumerate(parts[:10]):
                send(end, index, part)
        with order(at, 2, sends=False) as end:
            for index, part in enumerate(parts[8:], start=8):
                send(end, index, part)
        at.wait(lambda: at.has_arrived(RUN))
        whole = Pipeline.load(open_checkpoint(checkpoint), [LAYERS])
        assert at.decode(RUN, prefilled, 8) == whole.generate(prompt_of(TOKENS), 8)
        at.receivers[0].obey(CloseKvLink("L"))
