"""Fairness between keys and projects: a light one keeps its objective whatever a heavy one does, and nobody starves."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import queue_parts, slack
from policies.fair_order import Account, Backlog
from policies.priority import Priority
from policies.rows import rows_of
from tests.policies.test_slack import Pool

PROMPT_S = 0.1
OBJECTIVE_S = 2.0


@dataclass
class Asked:
    arrival_s: float
    account: Account
    priority: Priority = Priority.STANDARD


class Queue:
    """Members that take `PROMPT_S` for every prompt, before a queue as the gateway has one."""

    def __init__(self, members: int, fair: bool = True) -> None:
        self.pool = Pool([PROMPT_S / 100] * members, [1.0] * members)
        self.pool.waiting = rows_of(queue_parts.Waiting, 4096, previous=-1, next=-1)
        self.fair = fair
        self.backlogs = {priority: Backlog() for priority in Priority}
        self.begun_s = dict[int, float]()
        """By row, in the order in which they were begun."""

    def run(self, asked: list[Asked]) -> list[float]:
        """Time of each from arrival to first token."""
        came = sorted(range(len(asked)), key=lambda row: asked[row].arrival_s)
        now_s = 0.0
        while len(self.begun_s) < len(asked):
            while came and asked[came[0]].arrival_s <= now_s:
                self._add(came.pop(0), asked)
            while (bound := self.pool.bind(now_s))[0] >= 0:
                self.begun_s[bound[0]] = now_s
                own = asked[bound[0]]
                self.backlogs[own.priority].remove(own.account, self._share_s())
            next_s = slack.next_look_s(self.pool.members, 0, len(self.pool.members), now_s, 0.0)
            now_s = min([next_s, *(asked[row].arrival_s for row in came[:1])])
            assert np.isfinite(now_s) or len(self.begun_s) == len(asked), "somebody waits for ever"
        return [self.begun_s[row] + PROMPT_S - each.arrival_s for row, each in enumerate(asked)]

    def _add(self, row: int, asked: list[Asked]) -> None:
        own = asked[row]
        backlog = self.backlogs[own.priority]
        behind_s = backlog.behind_s(own.account) if self.fair else 0.0
        due_s = own.arrival_s + OBJECTIVE_S
        self.pool.add(row, 100.0, due_s, behind_s, own.arrival_s, priority=own.priority)
        backlog.add(own.account, self._share_s())

    def _share_s(self) -> float:
        return slack.together_s(self.pool.members, 0, len(self.pool.members), self.pool.latency_s, 100.0)


def light(now_s: float, project: str = "modest") -> Asked:
    return Asked(now_s, (project, "light"))


def test_a_light_key_keeps_its_objective_while_a_heavy_one_floods() -> None:
    flood = [Asked(n * 0.02, ("grand", "heavy")) for n in range(500)]  # 2.5 times what two members can do
    lights = [light(0.5 + n / 4) for n in range(36)]
    late = {
        fair: sum(s > OBJECTIVE_S for s in Queue(2, fair).run([*lights, *flood])[: len(lights)])
        for fair in (True, False)
    }
    assert late[True] == 0
    assert late[False] > 2


def test_nor_does_a_project_with_many_keys_or_a_key_of_the_same_project_make_it_late() -> None:
    for flooding in ([("grand", f"k{n}") for n in range(40)], [("modest", "heavy")]):
        flood = [Asked(n * 0.02, flooding[n % len(flooding)]) for n in range(500)]
        lights = [light(0.5 + n) for n in range(9)]
        assert max(Queue(2).run([*lights, *flood])[: len(lights)]) <= OBJECTIVE_S


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=80),
    st.integers(1, 3),
)
def test_everybody_is_served_in_the_end(asked: list[tuple[float, int, int]], members: int) -> None:
    found = Queue(members).run([Asked(at_s, (str(project), str(key))) for at_s, project, key in asked])
    assert max(found) <= 5 + len(asked) * PROMPT_S + PROMPT_S


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 8), min_size=1, max_size=80), st.integers(1, 3))
def test_an_account_alone_is_served_as_it_came(arrivals_s: list[float], members: int) -> None:
    asked = [Asked(at_s, ("", "")) for at_s in sorted(arrivals_s)]
    queue = Queue(members)
    found = queue.run(asked)
    assert found == Queue(members, fair=False).run(asked)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0, 9)), max_size=40))
def test_nothing_is_left_of_what_was_counted(asked: list[tuple[int, int, float]]) -> None:
    backlog = Backlog()
    for project, key, seconds in asked:
        before_s = backlog.behind_s((str(project), str(key)))
        backlog.add((str(project), str(key)), seconds)
        assert backlog.behind_s((str(project), str(key))) >= before_s - 1e-9
    for project, key, seconds in asked:
        backlog.remove((str(project), str(key)), seconds)
    assert all(backlog.behind_s((str(project), str(key))) == 0 for project, key, _ in asked)
    assert not backlog._keys
    assert not backlog._projects
