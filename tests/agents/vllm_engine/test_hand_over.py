"""vLLM on either side of a hand-off: with our own engine on the other, and with itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from agents.messages.to_hub import OUT_OF_MEMORY
from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet
from tests.agents.hand_off.scenarios import cancel_at_random, kill_during_hand_offs
from tests.agents.stage.questions import GREEDY, WARM, expected

pytestmark = [pytest.mark.slow, pytest.mark.needs("vllm")]

PAIRS = [("t1", "v1"), ("v2", "t1"), ("v1", "v2"), ("v2", "v1")]
"""Prefill and decode, ours (t), and vLLM (v) in one process or, `v2`, cut over two by heads."""


@contextmanager
def stopped(fleet: Fleet) -> Iterator[Fleet]:
    """Stop what the fleet has started."""
    try:
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture(scope="module")
def fleet(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One of ours is cut into two stages."""
    with stopped(Fleet(tmp_path_factory.mktemp("fleet"), checkpoint)) as made:
        made.add("t1", PREFILL, ((4, 2), ((1.0,), (0.6, 0.4))))
        made.add("t2", DECODE, ((6,), ((1.0,),)))
        made.add_vllm("v1", DECODE)
        made.add_vllm("v2", DECODE, "--tensor-parallel", "2")
        made.publish()
        made.start_gateway(*QUICK)
        yield made


@pytest.mark.parametrize(("prefill", "decode"), PAIRS)
def test_a_request_handed_over_gets_the_tokens_of_one_engine(
    fleet: Fleet, whole: Pipeline, prefill: str, decode: str
) -> None:
    fleet.pair(prefill, decode)
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n, WARM if n % 3 == 2 else GREEDY) for n in range(10)}
    before = {name: fleet.stats(name).done for name in (prefill, decode)}
    streams = {n: fleet.ask(*request) for n, request in requests.items()}
    for n, request in requests.items():
        assert streams[n].end() == expected(whole, *request), f"request {n}"
        assert streams[n].reason == "length"
    fleet.wait_idle(prefill, decode)
    after = {name: fleet.stats(name).done for name in (prefill, decode)}
    computed = {name: after[name].prompt_tokens - before[name].prompt_tokens for name in before}
    assert computed == {prefill: sum(len(prompt) for prompt, *_ in requests.values()), decode: 0}
    assert after[decode].received_kv_bytes > before[decode].received_kv_bytes


def test_what_the_decode_instance_has_in_its_prefix_cache_is_written_once(fleet: Fleet, whole: Pipeline) -> None:
    """Of 64 tokens all is there, and nothing is sent; of 90, the last two blocks come."""
    fleet.pair("t1", "v2")
    prompt, longer = prompt_of(64, 90), [*prompt_of(64, 90), *prompt_of(26, 91)]
    assert fleet.stream(prompt, 9).end() == whole.generate(prompt, 9)
    fleet.wait_idle("t1", "v2")
    before = fleet.stats("v2").done.received_kv_bytes
    assert fleet.stream(prompt, 9).end() == whole.generate(prompt, 9)
    fleet.wait_idle("t1", "v2")
    assert fleet.stats("v2").done.received_kv_bytes == before
    assert fleet.stream(longer, 9).end() == whole.generate(longer, 9)
    fleet.wait_idle("t1", "v2")
    assert fleet.stats("v2").done.received_kv_bytes > before


@pytest.mark.parametrize(("prefill", "decode"), PAIRS)
def test_cancels_amid_the_transfer_leave_nothing_held_on_either_side(
    fleet: Fleet, whole: Pipeline, prefill: str, decode: str
) -> None:
    fleet.pair(prefill, decode)
    cancel_at_random(fleet, whole, prefill, decode)


def test_layers_with_a_window_hand_over_what_it_still_sees(tmp_path: Path) -> None:
    """Prompts within the window, a little longer, and of many windows; heads of a size that the kernels have."""
    save_model("mistral", tmp_path / "mistral", head_dim=32)
    whole = Pipeline.load(open_checkpoint(tmp_path / "mistral"), [LAYERS])
    with stopped(Fleet(tmp_path, tmp_path / "mistral")) as fleet:
        fleet.add("t1", PREFILL, ((4, 2), ((1.0,), (1.0,))))
        fleet.add_vllm("v1", DECODE)
        fleet.publish()
        fleet.start_gateway(*QUICK)
        for prefill, decode in (("t1", "v1"), ("v1", "t1")):
            fleet.pair(prefill, decode)
            prompts = [prompt_of(length, length) for length in (10, 40, 150)]
            streams = [fleet.stream(prompt, 30) for prompt in prompts]
            for prompt, stream in zip(prompts, streams, strict=True):
                assert stream.end() == whole.generate(prompt, 30), f"{len(prompt)} tokens from {prefill} to {decode}"
            fleet.wait_idle(prefill, decode)


def test_whoever_is_killed_during_a_hand_off_clients_see_every_token_once(fleet: Fleet, whole: Pipeline) -> None:
    """Last of this module: first one of the processes of vLLM that decodes is killed while its scheduler stands still,
    then vLLM that prefills while the other side does."""
    fleet.legs |= {"t1": ("z1", PREFILL), "v1": ("z1", PREFILL), "t2": ("z1", DECODE), "v2": ("z1", DECODE)}
    fleet.publish()
    fleet.wait_for("medley_gateway_table_version", fleet.version)
    for name in fleet.instances:
        fleet.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0)
    v1, v2 = (fleet.instances[name].scheduler for name in ("v1", "v2"))
    children = psutil.Process(v2.pid).children(recursive=True)
    worker = next(child for child in children if "VLLM" in " ".join(child.cmdline()))
    kill_during_hand_offs(fleet, whole, 1, "v2", worker, [v2])
    assert v2.wait(60) == 1
    (said,) = [line for line in fleet.instances["v2"].log.splitlines() if line.startswith("vllm: ")]
    assert "worker" in said
    assert OUT_OF_MEMORY in said, "which is what kills processes on nodes"
    assert not psutil.wait_procs(children, 60)[1]
    kill_during_hand_offs(fleet, whole, 2, "v1", v1, [fleet.instances["t2"].workers["0.0"]])
    fleet.wait_idle("t1", "t2")
    assert "Traceback" not in fleet.gateway_log
