"""KV cache between nodes that are pipelines and replicas inside: part to part, each layer once."""

from pathlib import Path

import pytest
import torch

from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Cut, Fleet
from tests.agents.hand_off.test_two_legs import kv_bytes
from tests.agents.stage.instances import Split

Made = tuple[Cut, dict[str, Split]]
PARTS: Made = (((6,), ((1.0,),)), {"0.0": Split(pp=2)})
REPLICAS: Made = (((6,), ((1.0,),)), {"0.0": Split(dp=2)})
MIXED: Made = (((4, 2), ((0.5, 0.5), (1.0,))), {"0.0": Split(dp=2, pp=3), "1.0": Split(tp=2, pp=2)})


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [
        (PARTS, REPLICAS),
        pytest.param(REPLICAS, PARTS, marks=pytest.mark.slow),
        pytest.param(PARTS, MIXED, marks=pytest.mark.slow),
        pytest.param(MIXED, REPLICAS, marks=pytest.mark.slow),
    ],
    ids=["parts to replicas", "replicas to parts", "parts to all", "all to replicas"],
)
def test_what_is_prefilled_in_a_split_node_is_decoded_in_another(prefill: Made, decode: Made, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    (tmp_path / "weights").mkdir()
    save_model("gpt-oss", tmp_path / "weights")
    whole = Pipeline.load(open_checkpoint(tmp_path / "weights"), [LAYERS])
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n) for n in range(8)}
    fleet = Fleet(tmp_path, tmp_path / "weights")
    try:
        for name, leg, (cut, splits) in (("p1", PREFILL, prefill), ("d1", DECODE, decode)):
            fleet.add(name, leg, cut, splits=splits)
        fleet.publish()
        fleet.start_gateway(*QUICK)
        streams = {n: fleet.stream(*request) for n, request in requests.items()}
        for n, request in requests.items():
            assert streams[n].end() == whole.generate(*request), f"request {n}"
        fleet.wait_idle()
        size = sum(kv_bytes(whole, len(prompt)) for prompt, _ in requests.values())
        fleet.stats_until("p1", lambda stats: stats.done.sent_kv_bytes == size)  # the last word may be on its way
        done = fleet.stats("d1").done
        assert done.received_kv_bytes == size
        assert done.prompt_tokens == 0, "nothing is computed twice"
    finally:
        fleet.stop()
