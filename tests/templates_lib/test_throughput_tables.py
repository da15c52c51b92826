"""T̂ keeps its promises: latency, memory, network, monotone in everything that helps or hurts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.apps.served_model import ServedModel
from templates_lib.models.model_spec import ExpertSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.sources.pipeline_source import even_budgets, uneven_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.throughput_table import StageRole, ThroughputTable
from templates_lib.values.work import Phase
from tests.templates_lib import throughput_worlds as worlds

SEARCH_ERROR = 0.03
"""How far the search may end from the best step."""
PHASES = (Phase.PREFILL, Phase.DECODE, Phase.AGGREGATED)


def table_of(
    served: ServedModel, phase: Phase, nodes: list[NodeConfig], cost: worlds.Roofline, budgets: tuple[float, ...] = ()
) -> ThroughputTable:
    return throughput_table(served, phase, nodes, cost.gpus, cost, budgets or even_budgets(served.slo_ms(phase), 4))


def one_gpu(**kwargs: float) -> worlds.Roofline:
    return worlds.Roofline({"G": worlds.gpu("G", **kwargs)})


@st.composite
def worlds_drawn(draw: st.DrawFn) -> tuple[ServedModel, worlds.Roofline, list[NodeConfig]]:
    layers = draw(st.integers(2, 12))
    experts = draw(st.sampled_from([None, ExpertSpec(count=8, active=2, intermediate_size=1024)]))
    windows = draw(st.sampled_from([(0,), (128, 0), (512, 512, 0)]))
    spec = worlds.model(
        layers,
        kv_heads=draw(st.sampled_from([2, 8, 16])),
        windows=tuple(windows[i % len(windows)] for i in range(layers)),
        experts=experts,
        tied=draw(st.booleans()),
    )
    lengths = worlds.shape(
        draw(st.lists(st.integers(1, 6000), min_size=3, max_size=3)),
        draw(st.lists(st.integers(2, 400), min_size=3, max_size=3)),
    )
    served = worlds.served(
        spec,
        ttft_ms=draw(st.sampled_from([200.0, 1000.0, 4000.0])),
        tpot_ms=draw(st.sampled_from([10.0, 40.0, 150.0])),
        lengths=lengths,
        percentile=draw(st.sampled_from([50.0, 90.0, 99.0])),
    )
    cards = {
        "G": worlds.gpu("G", memory_gib=draw(st.sampled_from([2.0, 6.0, 24.0]))),
        "H": worlds.gpu("H", memory_gib=4.0, tflops=400.0, hbm_gbps=20000.0),
    }
    nodes = [
        worlds.node(name, draw(st.sampled_from([1, 2, 4, 6, 8])), network=draw(st.sampled_from([0.0, 10.0, 100.0])))
        for name in cards
    ]
    return served, worlds.Roofline(cards), nodes


@settings(deadline=None, max_examples=25)
@given(worlds_drawn(), st.sampled_from(PHASES))
def test_table_is_monotone_in_layers_budget_and_role(world: tuple, phase: Phase) -> None:
    served, cost, nodes = world
    slo = served.slo_ms(phase)
    units = table_of(served, phase, nodes, cost, uneven_budgets(slo, 6)).units_per_s
    assert (np.diff(units, axis=3) <= 0).all(), "non-increasing in layers"
    assert (np.diff(units, axis=1) >= 0).all(), "non-decreasing in the budget"
    assert (units[StageRole.MIDDLE] >= units[StageRole.FIRST]).all()
    assert (units[StageRole.MIDDLE] >= units[StageRole.LAST]).all()
    assert np.isfinite(units).all()


@settings(deadline=None, max_examples=25)
@given(worlds_drawn(), st.sampled_from(PHASES))
def test_every_cell_keeps_what_it_promises(world: tuple, phase: Phase) -> None:
    served, cost, nodes = world
    table = table_of(served, phase, nodes, cost)
    cells = list(zip(*np.nonzero(table.units_per_s), strict=True))
    for cell in cells[:: max(1, len(cells) // 60)]:
        if not nodes[cell[2]].joins_others and cell[3] + 1 < served.model.layers:
            continue  # Repeats what the node does with the whole model.
        assert not worlds.broken_promises(served, phase, table, nodes[cell[2]], cost, cell), cell


@settings(deadline=None, max_examples=25)
@given(worlds_drawn(), st.sampled_from(PHASES))
def test_a_cell_without_throughput_names_no_choice(world: tuple, phase: Phase) -> None:
    served, cost, nodes = world
    table = table_of(served, phase, nodes, cost)
    idle = table.units_per_s == 0
    for choice in (table.tp, table.dp, table.pp, table.ep, table.batch_cap, table.chunk_tokens, table.kv_blocks):
        assert (choice[idle] == 0).all()
    assert (table.tp[~idle] > 0).all()
    assert ((table.batch_cap > 0) == (~idle & (phase is not Phase.PREFILL))).all()
    assert ((table.chunk_tokens > 0) == (~idle & (phase is not Phase.DECODE))).all()


@settings(deadline=None, max_examples=25, derandomize=True)
@given(worlds_drawn(), st.sampled_from(PHASES), st.sampled_from(["memory_gib", "hbm_gbps", "peak_bf16_tflops"]))
def test_a_better_gpu_never_hurts(world: tuple, phase: Phase, what: str) -> None:
    served, cost, nodes = world
    better = {name: replace(g, **{what: getattr(g, what) * 1.5}) for name, g in cost.gpus.items()}
    before = table_of(served, phase, nodes, cost).units_per_s
    after = table_of(served, phase, nodes, worlds.Roofline(better)).units_per_s
    assert (after >= before * (1 - SEARCH_ERROR)).all()


@settings(deadline=None, max_examples=25, derandomize=True)
@given(worlds_drawn(), st.sampled_from(PHASES), st.sampled_from(["network_gbps", "intra_node_gbps"]))
def test_a_better_link_never_hurts(world: tuple, phase: Phase, what: str) -> None:
    served, cost, nodes = world
    better = [replace(n, **{what: getattr(n, what) * 2}) for n in nodes]
    before = table_of(served, phase, nodes, cost).units_per_s
    after = table_of(served, phase, better, cost).units_per_s
    assert (after >= before * (1 - SEARCH_ERROR)).all()


def test_table_names_its_class_configurations_and_budgets_in_the_order_given() -> None:
    served, cost = worlds.served(), one_gpu()
    nodes = [worlds.node(count=2), worlds.node()]
    even = table_of(served, Phase.DECODE, nodes, cost)
    back = table_of(served, Phase.DECODE, nodes, cost, even.budgets_ms[::-1])
    assert even.work_class == "toy/decode"
    assert even.configs == ("G:2/n25", "G:1/n25")
    assert even.units_per_s.shape == (4, 4, 2, 8)
    np.testing.assert_array_equal(even.units_per_s, back.units_per_s[:, ::-1])
    np.testing.assert_array_equal(even.kv_blocks, back.kv_blocks[:, ::-1])


def test_decode_rate_is_near_the_best_of_all_batches() -> None:
    """Against every batch size by brute force, where only latency binds."""
    served, cost = worlds.served(tpot_ms=12.0), one_gpu(memory_gib=200.0)
    config = worlds.node(network=200.0)
    table = table_of(served, Phase.DECODE, [config], cost, (12.0,))
    batch = np.arange(1.0, 1025.0)
    none = np.zeros(())
    for j in (2, 5, 8):
        step = NodeStep(np.array(float(j)), none, none, batch, np.array(served.shape.decode_context))
        seconds = cost.stage_seconds(served.model, config, Parallel(), step, head=True)
        hand_off = served.model.kv_bytes_per_token_per_layer * j * served.shape.mean_prompt_tokens / (0.7 * 25e9)
        fits = seconds + hand_off / (served.shape.mean_output_tokens - 1) <= 0.012
        best = (batch / seconds)[fits].max()
        assert 0.98 * best <= table.units_per_s[StageRole.ONLY, 0, 0, j - 1] <= best * (1 + 1e-9)


def test_prefill_needs_the_percentile_prompt_alone_to_meet_the_budget() -> None:
    served, cost = worlds.served(), one_gpu()
    config = worlds.node()
    longest = served.shape.prompt_percentile(99)
    step = NodeStep(*(np.array(x) for x in (8.0, longest, (longest - 1) / 2, 0.0, 0.0)))
    needed_ms = 1000 * float(cost.stage_seconds(served.model, config, Parallel(), step, head=True))
    table = table_of(served, Phase.PREFILL, [config], cost, (0.99 * needed_ms, 1.01 * needed_ms))
    assert table.units_per_s[StageRole.ONLY, 0, 0, 7] == 0
    assert table.units_per_s[StageRole.ONLY, 1, 0, 7] > 0


def test_prefill_is_bounded_by_what_the_network_takes_of_its_kv() -> None:
    served, config = worlds.served(), worlds.node(network=10.0)
    table = table_of(served, Phase.PREFILL, [config], one_gpu(tflops=10_000.0, hbm_gbps=1e6), (2000.0,))
    kv = served.model.kv_bytes_per_token_per_layer * 8
    assert table.units_per_s[StageRole.ONLY, 0, 0, 7] == pytest.approx(0.7 * 10e9 / 8 / kv)
    assert table.units_per_s[StageRole.LAST, 0, 0, 7] == pytest.approx(0.7 * 10e9 / 8 / (kv + 2 * 2048))


def test_links_take_of_the_steps_of_who_sends_and_who_takes_kv_and_of_nobody_else() -> None:
    """Each prompt token is a step's own time and its bytes' more; an output token its share of a prompt's."""
    served, config = worlds.served(), worlds.node(network=1000.0)
    free = one_gpu(memory_gib=2000.0)
    prompt_bytes = served.model.kv_bytes_per_token_per_layer * 8 * served.shape.mean_prompt_tokens
    of_prompt_s, budget = 0.05, (20_000.0,)
    busy = replace(free, hand_off=(of_prompt_s / prompt_bytes, 2 * of_prompt_s / prompt_bytes))
    mean = {Phase.PREFILL: served.shape.mean_prompt_tokens, Phase.DECODE: served.shape.mean_output_tokens}
    more_s = {Phase.PREFILL: of_prompt_s, Phase.DECODE: 2 * of_prompt_s}
    for phase in PHASES:
        before, after = (
            table_of(served, phase, [config], cost, budget).units_per_s[StageRole.ONLY, 0, 0, 7]
            for cost in (free, busy)
        )
        if phase is Phase.AGGREGATED:
            assert after == before
        else:
            assert mean[phase] / after - mean[phase] / before == pytest.approx(more_s[phase], rel=0.05)


def test_decode_with_peers_holds_its_requests_as_long_as_the_slowest_peer_may_take() -> None:
    """Little's law: memory for M requests is M / SLO tokens a second with peers, M / own step without."""
    served, config = worlds.served(tpot_ms=60.0), worlds.node(network=200.0)
    table = table_of(served, Phase.DECODE, [config], one_gpu(memory_gib=5.0), (60.0, 30.0))
    held = served.model.kv_bytes_per_token_per_layer * 8 * (served.shape.decode_context + 8)
    requests = table.kv_blocks[StageRole.MIDDLE, 1, 0, 7] * 16 * served.model.kv_bytes_per_token_per_layer * 8 / held
    assert table.units_per_s[StageRole.MIDDLE, 1, 0, 7] == pytest.approx(requests / 0.060, rel=0.05)
    assert table.units_per_s[StageRole.ONLY, 0, 0, 7] > 1.5 * table.units_per_s[StageRole.MIDDLE, 0, 0, 7]


def test_windowed_layers_leave_no_room_for_more_requests_than_schedulers_admit() -> None:
    """Schedulers count blocks of all tokens in all layers; windows save time and what is sent."""
    full, windowed = (worlds.served(worlds.model(windows=w)) for w in ((0,) * 8, (128,) * 8))
    cost, config = one_gpu(memory_gib=5.0), worlds.node(network=200.0)
    tables = [table_of(s, Phase.DECODE, [config], cost) for s in (full, windowed)]
    rates = [table.units_per_s[StageRole.MIDDLE, 1, 0, 7] for table in tables]
    assert rates[1] == pytest.approx(rates[0], rel=0.05)
    assert rates[0] > 0
    blocks_of_one = (windowed.shape.decode_context + 8) / 16
    at_once = rates[1] * windowed.slo.tpot_ms / 1000
    assert at_once * blocks_of_one <= tables[1].kv_blocks[StageRole.MIDDLE, 1, 0, 7]


def test_a_node_without_a_network_only_serves_whole_models_aggregated() -> None:
    served, cost, config = worlds.served(), one_gpu(), worlds.node(network=0.0)
    assert not table_of(served, Phase.PREFILL, [config], cost).units_per_s.any()
    assert not table_of(served, Phase.DECODE, [config], cost).units_per_s.any()
    units = table_of(served, Phase.AGGREGATED, [config], cost).units_per_s
    assert units[StageRole.ONLY, 0, 0, 7] > 0
    assert not units[[StageRole.FIRST, StageRole.MIDDLE, StageRole.LAST]].any()


def test_a_hand_off_longer_than_the_time_to_first_token_certifies_no_decode() -> None:
    """2940 tokens · 8 layers · 2 KiB = 48 MB take 55 ms of 7 Gbit/s."""
    slow = worlds.node(network=10.0)
    patient, hasty = worlds.served(ttft_ms=60.0), worlds.served(ttft_ms=50.0)
    assert table_of(patient, Phase.DECODE, [slow], one_gpu()).units_per_s[StageRole.MIDDLE, 0, 0, 7] > 0
    units = table_of(hasty, Phase.DECODE, [slow], one_gpu()).units_per_s
    assert units[StageRole.MIDDLE, 0, 0, 7] == 0
    assert units[StageRole.MIDDLE, 0, 0, 3] > 0


def test_aggregated_rate_is_less_when_prompts_must_come_in_small_chunks() -> None:
    cost, config = one_gpu(), worlds.node()
    loose, tight = worlds.served(tpot_ms=60.0), worlds.served(tpot_ms=15.0)
    rates = [table_of(s, Phase.AGGREGATED, [config], cost).units_per_s[StageRole.ONLY, 0, 0, 7] for s in (loose, tight)]
    assert rates[0] > rates[1] > 0


def test_slow_links_make_tensor_parallel_lose() -> None:
    served, cost = worlds.served(), one_gpu()
    fast, slow = worlds.node(count=8, intra=4000.0, network=200.0), worlds.node(count=8, intra=8.0, network=200.0)
    table = table_of(served, Phase.PREFILL, [fast, slow], cost, (20.0, 100.0))
    assert table.tp[StageRole.ONLY, 0, 0, 7] > 1, "the budget is too short for one GPU"
    assert table.units_per_s[StageRole.ONLY, 0, 1, 7] == 0
    assert table.units_per_s[StageRole.ONLY, 1, 1, 7] > 0
    assert table.tp[StageRole.ONLY, 1, 1, 7] == 1


def test_a_gpu_without_the_models_data_types_serves_nothing() -> None:
    old = replace(worlds.gpu("G"), dtypes=("fp16",))
    cost = worlds.Roofline({"G": old})
    half = worlds.served()
    packed = worlds.served(replace(worlds.model(), dtype="mxfp4"))
    assert table_of(half, Phase.DECODE, [worlds.node()], cost).units_per_s.any(), "fp16 stands in for bf16"
    assert not table_of(packed, Phase.DECODE, [worlds.node()], cost).units_per_s.any()


def test_bad_budgets_and_unknown_gpus_are_errors_that_say_what_to_do() -> None:
    served, cost = worlds.served(), worlds.Roofline({"L40S": worlds.gpu("L40S")})
    with pytest.raises(ValueError, match=r"toy/decode: budgets must be positive"):
        table_of(served, Phase.DECODE, [worlds.node("L40S")], cost, (10.0, float("nan")))
    with pytest.raises(ValueError, match=r"unknown GPU 'L40'; did you mean 'L40S'\?"):
        table_of(served, Phase.DECODE, [worlds.node("L40")], cost)


def test_budgets_are_cut_evenly_or_in_ticks() -> None:
    assert even_budgets(120.0, 4) == (120.0, 60.0, 40.0, 30.0)
    assert uneven_budgets(120.0, 4) == (30.0, 60.0, 90.0, 120.0)
