"""Prefilled here, decoded there: whatever the cuts, and whoever dies, a client sees the tokens of one engine, once."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agents.engines.sampling import Sampling
from agents.messages.to_gateway import FinishReason, SchedulerState, Status
from agents.messages.to_scheduler import Drain
from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet, fleet_of
from tests.agents.hand_off.scenarios import cancel_at_random, kill_during_hand_offs
from tests.tcp_abort import abort


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grouped queries; windows in every other layer; experts."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    save_model("gpt-oss", folder)
    return folder


@pytest.fixture(scope="module")
def whole(checkpoint: Path) -> Pipeline:
    """The same model behind one engine."""
    return Pipeline.load(open_checkpoint(checkpoint), [LAYERS])


@pytest.fixture(scope="module")
def pair(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two uneven prefill stages, the second on two unequal nodes; three decode stages cut elsewhere. A worker may be
    stopped for a while."""
    instances = {
        "p1": (PREFILL, ((4, 2), ((1.0,), (0.6, 0.4)))),
        "d1": (DECODE, ((1, 3, 2), ((1.0,), (0.5, 0.5), (1.0,)))),
    }
    with fleet_of(tmp_path_factory.mktemp("pair"), checkpoint, instances, *QUICK, is_patient=True) as fleet:
        yield fleet


def test_requests_of_two_legs_get_the_tokens_of_one_engine(pair: Fleet, whole: Pipeline) -> None:
    warm = {"temperature": 0.9, "top_p": 0.95, "seed": 11}
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n, warm if n % 3 == 2 else {}) for n in range(10)}
    before = {name: pair.stats(name) for name in ("p1", "d1")}
    streams = {n: pair.stream(prompt, tokens, **how) for n, (prompt, tokens, how) in requests.items()}
    for n, (prompt, tokens, how) in requests.items():
        sampling = Sampling(how.get("temperature", 0.0), how.get("top_p", 1.0), 0, how.get("seed", 0))
        assert streams[n].end() == whole.generate(prompt, tokens, sampling=sampling), f"request {n}"
        assert streams[n].reason == "length"
    assert pair.stream(prompt_of(9), 1).end() == whole.generate(prompt_of(9), 1)  # nothing is left to hand off
    pair.wait_idle()
    size = sum(kv_bytes(whole, len(prompt)) for prompt, _, _ in requests.values())
    sent = before["p1"].done.sent_kv_bytes + size  # the last word of it may be on its way
    after = {"p1": pair.stats_until("p1", lambda stats: stats.done.sent_kv_bytes == sent), "d1": pair.stats("d1")}
    assert after["d1"].done.received_kv_bytes - before["d1"].done.received_kv_bytes == size
    assert after["p1"].done.prompt_tokens - before["p1"].done.prompt_tokens == 9 + sum(5 + 11 * n for n in requests)
    assert after["d1"].done.prompt_tokens == before["d1"].done.prompt_tokens, "nothing is computed twice"
    made = {name: after[name].generated_tokens - before[name].generated_tokens for name in after}
    assert made == {"p1": len(requests) + 1, "d1": sum(3 + 3 * n for n in requests)}
    assert after["d1"].finished == {FinishReason.LENGTH: len(requests)}
    assert [node.node for node in after["d1"].done.nodes] == ["0.0", "1.0", "1.1", "2.0"]
    nodes = pair.stats_until("p1", lambda stats: all(node.busy_s > 0 for node in stats.done.nodes)).done.nodes
    assert all(min(node.loaded_bytes, node.load_s) > 0 for node in nodes)


def test_a_decode_leg_goes_on_with_drafts_of_its_prompt(pair: Fleet, whole: Pipeline) -> None:
    """Alone, it has places for them."""
    prompt, before = prompt_of(12) * 2, pair.stats("d1").done.accepted_tokens
    assert pair.stream(prompt, 40).end() == whole.generate(prompt, 40)
    assert pair.stats("d1").done.accepted_tokens > before
    assert pair.stats("p1").done.draft_tokens == 0


def kv_bytes(whole: Pipeline, tokens: int) -> int:
    """Of all layers, as far as they keep it."""
    (stage,) = whole.stages
    facts = stage.facts
    kept = sum(tokens - stage.first_kept_token(layer, tokens) for layer in range(LAYERS))
    return 2 * kept * facts.kv_heads * facts.head_dim * facts.dtype.itemsize


def test_64_streams_with_random_cancels_leave_nothing_held_on_either_side(pair: Fleet, whole: Pipeline) -> None:
    cancel_at_random(pair, whole)


@pytest.mark.needs("tcp_abort")
def test_connections_that_the_network_cuts_are_made_anew_and_nobody_notices(pair: Fleet, whole: Pipeline) -> None:
    """All there are between the two instances, of nodes and of schedulers."""
    prompts = [prompt_of(60 + n, n) for n in range(6)]
    answers = [whole.generate(prompt, 6) for prompt in prompts]
    cut = 0
    for _ in range(8):
        streams = [pair.stream(prompt, 6) for prompt in prompts]
        for stream in streams[:3]:
            stream.wait(1)  # about to be handed off
        for local, remote in pair.links("p1", "d1"):
            abort(local, remote)
            cut += 1
        assert [stream.end() for stream in streams] == answers
    assert cut >= 8
    assert not any(value for name, value in pair.metrics().items() if "resumptions_total" in name)
    pair.wait_idle()


@pytest.mark.slow
def test_whoever_is_killed_during_a_hand_off_clients_see_every_token_once(
    checkpoint: Path, whole: Pipeline, tmp_path: Path
) -> None:
    """Decode workers are stopped, so that hand-offs to them hang; then one process of one instance is killed, each of
    another role, while another pair of instances remains."""
    one, two = ((6,), ((1.0,),)), ((2, 4), ((1.0,), (1.0,)))
    legs = {"p1": (PREFILL, two), "p2": (PREFILL, one), "p3": (PREFILL, one), "d1": (DECODE, one)}
    legs |= {"d2": (DECODE, one), "d3": (DECODE, two)}
    victims = [("p1", "1.0"), ("d1", "0.0"), ("p2", "scheduler"), ("d2", "scheduler")]
    with fleet_of(tmp_path, checkpoint, legs, *QUICK) as fleet:
        for round_, (name, role) in enumerate(victims):
            stopped = [i.workers["0.0"] for n, i in fleet.instances.items() if n[0] == "d" and n != "d3"]
            instance = fleet.instances[name]
            victim = instance.scheduler if role == "scheduler" else instance.workers[role]
            kill_during_hand_offs(fleet, whole, round_, name, victim, stopped)
        fleet.wait_idle("p3", "d3")
        assert "Traceback" not in fleet.gateway_log


def test_a_prefill_instance_that_drains_finishes_its_hand_offs(pair: Fleet, whole: Pipeline) -> None:
    """Last of this module: the instance takes nothing new afterwards."""
    worker = pair.instances["d1"].workers["1.0"]
    worker.send_signal(signal.SIGSTOP)
    prompts = [prompt_of(40 + n, n) for n in range(4)]
    streams = [pair.stream(prompt, 10) for prompt in prompts]
    for stream in streams:
        stream.wait(1)
    pair.tell("p1", Drain(), lambda m: isinstance(m, Status) and m.state is SchedulerState.DRAINING)
    worker.send_signal(signal.SIGCONT)
    for prompt, stream in zip(prompts, streams, strict=True):
        assert stream.end() == whole.generate(prompt, 10)
    pair.wait_idle()
    assert not any(value for name, value in pair.metrics().items() if "resumptions_total" in name)
