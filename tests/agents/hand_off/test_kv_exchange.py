"""KV cache goes over links once, to where its layers are held, through breaks and stalls; then it decodes as before."""

from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest
import torch

from agents.engines.kv_part import KvPart
from agents.engines.sampling import GREEDY, Sampling
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import CloseKvLink, OpenKvLink
from agents.transfer.errors import LinkLostError
from agents.transfer.meeting import LinkListener
from agents.transfer.rendezvous import connect
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.exchanges import SMALL, HandOver

CUTS = ((6,), (4, 2), (1, 3, 2)), ((6,), (2, 4), (3, 2, 1))
WARM = Sampling(0.9, 0.95, 40, 11)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.set_num_threads(1)
    folders = {name: tmp_path_factory.mktemp(name) for name in ("qwen3", "mistral", "gpt-oss")}
    for name, folder in folders.items():
        save_model(name, folder)
    return folders


@pytest.mark.parametrize(
    ("model", "source", "target"),
    [
        *(("gpt-oss", source, target) for source, target in product(*CUTS)),
        ("mistral", (4, 2), (1, 3, 2)),
        ("qwen3", (1, 3, 2), (2, 4)),
    ],
)
def test_every_cut_goes_on_with_the_tokens_of_one_engine(
    checkpoints: dict[str, Path], model: str, source: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """Several requests at once over the same links; bytes moved are the size of the prompts' KV cache and no more."""
    whole = Pipeline.load(open_checkpoint(checkpoints[model]), [LAYERS])
    requests = {3: (70, GREEDY), 5: (16, WARM), 6: (33, WARM), 9: (1, GREEDY)}
    with HandOver(checkpoints[model], source, target) as at:
        at.open()
        prefilled = {}
        for run, (length, sampling) in requests.items():
            prefilled[run] = at.prefill(run + 100, prompt_of(length, run), sampling)
            at.reserve(run, length)
            at.send(run + 100, run, length)
        for run, (length, sampling) in requests.items():
            at.wait(lambda run=run: at.has_arrived(run))
            assert sum(at.arrived[run]) == at.kv_bytes(length)
            expected = whole.generate(prompt_of(length, run), 12, sampling=sampling)
            assert at.decode(run, prefilled[run], 12) == expected


def test_a_cache_in_another_data_type_is_turned_into_the_receivers_own(checkpoints: dict[str, Path]) -> None:
    """In chunks of the size that is sent in earnest."""
    dtypes = (torch.bfloat16, torch.float32)
    with HandOver(checkpoints["qwen3"], (4, 2), (6,), HandOffSettings(), dtypes) as at:
        at.open()
        at.prefill(1, prompt_of(40))
        at.reserve(2, 40)
        at.send(1, 2, 40)
        at.wait(lambda: at.has_arrived(2))
        assert sum(at.arrived[2]) == at.kv_bytes(40)
        sent, got = at.source.stages[1]._engine._cache, at.target.stages[0]._engine._cache
        slots = sent.slots("1", 1, 0, 40), got.slots("2", 5, 0, 40)
        assert torch.equal(sent.flat_values[slots[0]].float(), got.flat_values[slots[1]])


def test_a_link_that_stalls_is_connected_anew_and_goes_on_where_it_was(checkpoints: dict[str, Path]) -> None:
    """The receiving engine is busy for longer than the sending end waits, in the middle of a transfer."""
    with HandOver(checkpoints["qwen3"], (4, 2), (6,), HandOffSettings(chunk_bytes=3000, stall_s=0.5)) as at:
        at.open()
        prefilled = at.prefill(1, prompt_of(200))
        at.reserve(2, 200)
        engine = at.receivers[0].inbox._engine
        with engine._changed:
            at.send(1, 2, 200)
            at.wait(lambda: {each.link for each in at.broken} == at.links.keys())
        at.open_until_arrived(2, epoch=2)
        again = at.arrived[2][0] - at.kv_bytes(200)
        assert 0 <= again < at.kv_bytes(200) / 2, "it did not begin anew"
        whole = Pipeline.load(open_checkpoint(checkpoints["qwen3"]), [LAYERS])
        assert at.decode(2, prefilled, 8) == whole.generate(prompt_of(200), 8)


def test_a_link_that_breaks_again_and_again_loses_nothing(checkpoints: dict[str, Path]) -> None:
    with HandOver(checkpoints["qwen3"], (2, 4), (3, 3)) as at:
        prefilled = at.prefill(1, prompt_of(220))
        at.reserve(2, 220)
        at.send(1, 2, 220)
        for epoch in range(1, 6):
            at.open(epoch)
            for receiver in at.receivers:
                for link in receiver._links.values():
                    link.close()
        at.wait(lambda: at.broken)
        at.open_until_arrived(2, epoch=6)
        whole = Pipeline.load(open_checkpoint(checkpoints["qwen3"]), [LAYERS])
        assert at.decode(2, prefilled, 8) == whole.generate(prompt_of(220), 8)


def test_requests_that_end_on_either_side_do_not_hold_up_others_on_the_link(checkpoints: dict[str, Path]) -> None:
    with HandOver(checkpoints["qwen3"], (6,), (2, 4)) as at:
        for run in (1, 2, 3):
            prefilled = at.prefill(run, prompt_of(60, run))
        for run in (11, 12, 13):
            at.reserve(run, 60)
        at.source.free("1")
        for receiver, stage in zip(at.receivers, at.target.stages, strict=True):
            receiver.inbox.forget(12)
            stage.free("12")
        at.open()
        for run in (1, 2, 3):
            at.send(run, run + 10, 60)
        at.wait(lambda: at.has_arrived(13))
        assert set(at.arrived) == {13}
        whole = Pipeline.load(open_checkpoint(checkpoints["qwen3"]), [LAYERS])
        assert at.decode(13, prefilled, 8) == whole.generate(prompt_of(60, 3), 8)
        assert not at.broken


@pytest.mark.parametrize(
    ("index", "part"),
    [
        (0, KvPart(0, 6, 0, 2, 0, 1 << 40)),
        (0, KvPart(0, 1, 0, 1, 0, 1)),
        (0, KvPart(0, 7, 0, 2, 0, 1)),
        (0, KvPart(0, 1, 0, 2, 55, 6)),
        (1, KvPart(0, 1, 0, 2, 0, 1)),
        (0, None),
    ],
    ids=["huge", "other heads", "layers not held", "tokens not reserved", "out of turn", "no part"],
)
def test_a_sender_that_lies_is_hung_up_on_and_writes_nothing(
    checkpoints: dict[str, Path], index: int, part: KvPart | None
) -> None:
    with HandOver(checkpoints["qwen3"], (6,), (6,)) as at:
        at.reserve(2, 60)
        cache = at.target.stages[0]._engine._cache
        receiver, rendezvous = at.receivers[0], at._rendezvous
        receiver.obey(OpenKvLink("L", 1, False, rendezvous.host, rendezvous.port, str(at.dtype)))
        liar = connect("kv L 1", (rendezvous.host, rendezvous.port), SMALL.stall_s)
        lie = ChunkHeader(2, index, True, part).packed() if part else b"\xff" * 72
        memory = memoryview(b"\xff" * SMALL.chunk_bytes)
        liar.send_piece(lie, SMALL.chunk_bytes, lambda: nullcontext((memory,)))
        with pytest.raises(LinkLostError, match=r"closed|reset"):
            liar.receive(ACKNOWLEDGEMENT.size)
        assert not cache.keys.any()
        assert not at.arrived
        liar.close()
        receiver.obey(CloseKvLink("L"))


def test_a_header_comes_as_it_was_sent() -> None:
    header = ChunkHeader(1 << 40, 2, False, KvPart(1, 2, 3, 4, 5, 6))
    listener = LinkListener("127.0.0.1")
    with listener.listening as listening:
        theirs = listener.address.connect(20.0)
        ours = listener.admit(listening.accept()[0], 20.0)
    assert ours is not None
    theirs.send(header.packed())
    assert ChunkHeader.receive(ours) == header
    assert header.part.kv_bytes(64, torch.bfloat16) == 2 * 2 * 6 * 4 * 64 * 2
    for end in (ours, theirs):
        end.close()


def test_a_cache_that_leaves_the_private_network_arrives_as_it_was(checkpoints: dict[str, Path]) -> None:
    """Over encrypted links, which are opened anew with other secrets."""
    whole = Pipeline.load(open_checkpoint(checkpoints["qwen3"]), [LAYERS])
    with HandOver(checkpoints["qwen3"], (4, 2), (3, 3)) as at:
        prefilled = at.prefill(1, prompt_of(60))
        at.reserve(2, 60)
        at.open(1, "ab" * 32)
        at.open(2, "cd" * 32)
        at.send(1, 2, 60)
        at.wait(lambda: at.has_arrived(2))
        assert at.decode(2, prefilled, 8) == whole.generate(prompt_of(60), 8)
