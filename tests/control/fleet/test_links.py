"""What flows between stages and phases, from what a model served."""

import pytest

from control.fleet.instance_view import InstanceView, NodeView
from control.fleet.links import HandOff, instance_links, is_by_layers
from templates_lib.models.catalogue import load_models

MODEL = load_models()["qwen3-32b"]
STATE = MODEL.hidden_size * 2.0
KV = MODEL.kv_bytes_per_token_per_layer * MODEL.layers
SERVED = {"m/prefill": 1000.0, "m/decode": 100.0}


def view(name: str, leg: str, units_per_s: float, stages: int = 2, model: str = "m") -> InstanceView:
    nodes = tuple(NodeView("n", "L4:1/n10", n, 0, 3, 1.0, 8, None, None, "", "") for n in range(stages) for _ in "ab")
    work = {f"{model}/{leg or 'aggregated'}": units_per_s}
    return InstanceView(
        name, "f", model, leg, "ready", "", "z", "spot", "t", units_per_s, 1.0, 0, 0, None, nodes, work
    )  # fmt: skip


def test_each_stage_sends_the_next_one_states_of_its_part_of_the_tokens() -> None:
    one, other = view("a", "prefill", 300, stages=3), view("b", "prefill", 100)
    links = instance_links(one, [one, other], MODEL, SERVED)
    assert links.tokens_per_s == pytest.approx(750)
    assert [(each.source, each.target) for each in links.stages] == [(0, 1), (1, 2)]
    assert {each.bytes_per_token for each in links.stages} == {STATE}
    assert links.stages[0].bytes_per_s == pytest.approx(750 * STATE)
    assert links.hand_off is None
    assert instance_links(one, [other], MODEL, SERVED) == links


def test_caches_of_prompts_go_to_those_that_answer() -> None:
    prompts, answers = view("a", "prefill", 300), [view("b", "decode", 30, stages=1), view("c", "decode", 10)]
    sent = instance_links(prompts, answers, MODEL, SERVED).hand_off
    assert sent == HandOff(True, ("b", "c"), KV, pytest.approx(1000 * KV))
    taken = instance_links(answers[0], [prompts, *answers], MODEL, SERVED)
    assert taken.hand_off == HandOff(False, ("a",), KV, pytest.approx(750 * KV))
    assert (taken.tokens_per_s, taken.stages) == (pytest.approx(75), ())


def test_one_that_does_both_hands_nothing_over() -> None:
    both = view("a", "", 2)
    links = instance_links(both, [view("b", "", 6), view("x", "decode", 5, model="other")], MODEL, SERVED)
    assert (links.tokens_per_s, links.hand_off) == (pytest.approx(1100 / 4), None)


def test_what_nobody_counted_is_not_known() -> None:
    links = instance_links(view("a", "prefill", 300), [view("b", "decode", 3)], MODEL, None)
    assert (links.tokens_per_s, links.stages[0].bytes_per_s) == (None, None)
    assert links.hand_off == HandOff(True, ("b",), KV, None)


def test_components_of_a_graph_have_no_layers() -> None:
    (node, *_) = view("a", "", 1).nodes
    assert is_by_layers([node])
    assert not is_by_layers([NodeView("n", "c", 0, 0, -1, 1.0, 0, None, None, "", "", components=("vision",))])
    assert not is_by_layers([])
