from math import isnan

import pytest

from control.simulator.pools.encoder import Encoder
from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.pool_run import Member, PoolRun
from control.simulator.pools.row_link import RowLink
from control.simulator.pools.scaled_run import ScaledPool, ScaledRun, Stage
from control.simulator.pools.stage_times import EncodeTimes, TextTimes, encode_times, text_times
from control.simulator.pools.text_instance import TextInstance
from policies.pools.dispatches import DISPATCHES
from policies.pools.scaling import PoolScaler
from policies.pools.turns import TURNS
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.graphs.catalogue import load_graph
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

TILE, LENGTH_S, START_UP_S = 256, 900.0, 30.0
BURST = (300.0, 400.0)


def node(gpus: int) -> NodeConfig:
    return NodeConfig(f"A100-80:{gpus}/n200", "A100-80", gpus, 2400.0, 200.0 * gpus, 200.0 * gpus)


@pytest.fixture(scope="module")
def times() -> tuple[EncodeTimes, TextTimes]:
    graph, costs = load_graph("internvl2.5-26b"), EstimatedComponentCost(estimated_cost_model(load_gpus(), "vllm"))
    return encode_times(graph, "vision", node(1), costs), text_times(graph, "language", node(4), costs)


def burst(per_s: float, times_more: float) -> list[PoolRequest]:
    """A picture each, several times as many for a while."""
    made, at_s = [], 0.0
    while at_s < LENGTH_S - 60:
        at_s += 1 / (per_s * (times_more if BURST[0] <= at_s < BURST[1] else 1.0))
        made.append(PoolRequest(at_s, 200, 20, ((TILE,) * 3,), due_s=5.0))
    return made


def scaled(times: tuple[EncodeTimes, TextTimes], asleep: int) -> tuple[ScaledRun, list[PoolRequest]]:
    encode, text = times
    run = PoolRun(DISPATCHES["late-pull-v1"], RowLink(2 * 6144, 1e10, 0.001), _rate)

    def encode_s(request: PoolRequest) -> float:
        return sum(encode.seconds(part, 1) for image in request.images for part in image)

    pools = [
        ScaledPool(Stage.ENCODE, PoolScaler(0.6), lambda name: Encoder(name, encode, 1), encode_s, 1, 2, START_UP_S,
                   due_share=0.5, asleep=asleep),
        ScaledPool(Stage.TEXT, PoolScaler(0.6), lambda name: TextInstance(name, text, TURNS["slack"]),
                   lambda request: text.prompt_s(request.text_tokens, request.image_tokens), 4, 1, START_UP_S),
    ]  # fmt: skip
    made = ScaledRun(run, pools, LENGTH_S)
    requests = burst(2.0, 8.0)
    made.serve(requests)
    return made, requests


def _rate(member: Member) -> float:
    return 4000.0 if isinstance(member, Encoder) else 8000.0


def test_a_burst_of_pictures_rents_encoders_and_gives_them_back(times: tuple[EncodeTimes, TextTimes]) -> None:
    made, requests = scaled(times, asleep=0)
    assert not any(isnan(each.finish_s) for each in requests)
    grown = [at_s for at_s, stage, change in made.changes if stage is Stage.ENCODE and change.rent]
    assert grown
    assert BURST[0] <= grown[0] <= BURST[0] + 20
    before = [each.ttft_s for each in requests if each.asked_s < BURST[0]]
    served = [each.ttft_s for each in requests if BURST[0] + 90 <= each.asked_s < BURST[1]]
    assert max(served) <= 3 * max(before)
    still = [each for each in made.held if each.until_s == LENGTH_S and each.stage is Stage.ENCODE]
    assert len(still) <= 3


def test_every_member_is_held_from_when_it_is_asked_for(times: tuple[EncodeTimes, TextTimes]) -> None:
    made, _ = scaled(times, asleep=0)
    rented = sum(change.rent for _, _, change in made.changes)
    assert len(made.held) >= rented + 3  # plans may ask for more
    assert all(0 <= each.from_s <= each.until_s <= LENGTH_S for each in made.held)
    assert sum(each.from_s == 0 and each.until_s == LENGTH_S for each in made.held) >= 2


def test_members_that_sleep_on_held_nodes_shorten_a_burst_and_cost_nothing(
    times: tuple[EncodeTimes, TextTimes],
) -> None:
    longest, gpu_s = {}, {}
    for asleep in (0, 8):
        made, requests = scaled(times, asleep)
        took = [each.encoded_s - each.asked_s for each in requests if BURST[0] <= each.asked_s < BURST[1]]
        longest[asleep] = max(took)
        gpu_s[asleep] = sum(each.gpu_s for each in made.held if each.stage is Stage.ENCODE)
    assert longest[8] < 0.7 * longest[0]
    assert gpu_s[8] < gpu_s[0]
