"""Simulated overloads: of low priorities, which make no high one late, and of one model, which delays no other."""

from dataclasses import replace

import numpy as np

from bench.text_tables import WHOLE, life_member, text_model
from control.simulator.report.fate import Fate, judge
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served
from control.simulator.serving.simulate import simulate
from control.timing.prompt_times import prompt_times
from policies.priority import Priority
from policies.routing import BY_SLACK
from tests.control.simulator.serving.test_late_refusals import SLO, UNREFUSED, station

RATES = {"a": 25.0, "b": 5.0}
"""Requests per second of two models, or priorities; an instance can do ten."""
LENGTH_S = 20.0


def fleet(*apps: str) -> FleetTimeline:
    """One instance for each app."""
    lives = [InstanceLife(f"i-{app}", app, WHOLE, "z", station()) for app in apps]
    models = []
    for life in lives:
        member = replace(life_member(life), times=prompt_times(life.station, is_whole=True))
        models.append(replace(text_model(life.app, [member]), policy=BY_SLACK, objective=SLO))
    return FleetTimeline(tuple(lives), ((0.0, tuple(models)),), 200.0)


def requests(streams: dict[str, int], apps: tuple[str, ...], ranks: dict[str, Priority] | None = None) -> Requests:
    """Requests of one prompt step each, evenly spread. `streams`: app of each stream."""
    parts = [(np.arange(0.01 * n, LENGTH_S, 1 / RATES[name]), name) for n, name in enumerate(streams)]
    arrival_s = np.concatenate([part for part, _ in parts])
    app = np.concatenate([np.full(len(part), streams[name]) for part, name in parts])
    rank = np.concatenate([np.full(len(part), (ranks or {}).get(name, Priority.STANDARD).rank) for part, name in parts])
    order = np.argsort(arrival_s, kind="stable")
    ones = np.ones(len(order), np.int64)
    return Requests(apps, app[order], arrival_s[order], 100 * ones, ones, rank[order])


def first_tokens(found: Served, which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[float]:
    return [float(each) for each in found.first_token_s[which]]


def test_an_overload_of_one_model_does_not_delay_another_by_a_bit() -> None:
    both = requests({"a": 0, "b": 1}, ("a", "b"))
    alone = requests({"b": 0}, ("b",))
    together = simulate(both, fleet("a", "b"), UNREFUSED)
    apart = simulate(replace(alone, arrival_s=both.arrival_s[both.app == 1]), fleet("b"), UNREFUSED)
    assert first_tokens(together, both.app == 1) == first_tokens(apart, np.ones(len(alone), np.bool_))
    fate = judge(both, together, {"a": SLO, "b": SLO}, 200.0).fate
    assert (fate[both.app == 0] == Fate.LATE).mean() > 0.3


def test_an_overload_of_batch_requests_makes_no_interactive_one_late() -> None:
    late = {}
    for priority in (Priority.INTERACTIVE, Priority.BATCH):
        asked = requests({"a": 0, "b": 0}, ("m",), {"a": Priority.BATCH, "b": priority})
        is_urgent = np.isin(asked.arrival_s, np.arange(0.01, LENGTH_S, 1 / RATES["b"]))
        fate = judge(asked, simulate(asked, fleet("m"), UNREFUSED), {"m": SLO}, 200.0).fate
        late[priority] = (fate[is_urgent] != Fate.WITHIN).mean()
    assert late[Priority.INTERACTIVE] == 0
    assert late[Priority.BATCH] > 0.3


def test_requests_of_one_priority_alone_fare_as_those_of_any_other() -> None:
    """Also where places come sooner than was predicted, as after answers that end."""
    draw = np.random.default_rng(7)
    arrival_s = np.sort(draw.uniform(0, LENGTH_S, 240))
    lengths = draw.integers(20, 300, 240), draw.integers(1, 60, 240)
    found = []
    for priority in Priority:
        rank = np.full(240, priority.rank)
        asked = Requests(("other", "m"), np.ones(240, np.int64), arrival_s, *lengths, rank)
        found.append(first_tokens(simulate(asked, fleet("other", "m"), UNREFUSED), np.ones(240, np.bool_)))
    assert found[0] == found[1] == found[2]
