"""The life of an executor: restarts in place, their pauses, and when it is given up."""

from hypothesis import given
from hypothesis import strategies as st

from agents.node.executor_life import MOST, TRANSITIONS, WINDOW_S, ExecutorLife, LifeState, Step

EVENTS = st.sampled_from(["die", "outdate", "work", "pass"])


@given(st.lists(st.tuples(EVENTS, st.floats(0, 200)), max_size=60), st.booleans(), st.sampled_from([MOST, 1]))
def test_an_executor_runs_after_its_pause_or_is_given_up_for_good(
    events: list[tuple[str, float]], alone: bool, most: int
) -> None:
    """Whatever happens when: all of its processes are gone before it starts again, never before its pause is over, and
    it is failed by exactly the death that is one too many."""
    life, now_s, running = ExecutorLife(not alone, most), 0.0, False
    deaths: list[float] = []
    for event, pause_s in events:
        now_s += pause_s
        if event == "die" and life.state is LifeState.RUNNING:
            deaths = [at for at in deaths if now_s - at <= WINDOW_S] + [now_s]
            life.died(now_s)
            assert life.deaths == len(deaths)
            assert (life.state is LifeState.FAILED) is (alone or len(deaths) > most)
            assert life.due_s >= now_s + 0.5 * len(deaths)
        elif event == "die":  # a process that falls over the first one's death
            before = life.state, life.deaths, life.due_s
            life.died(now_s)
            assert before == (life.state, life.deaths, life.due_s)
        elif event == "outdate":
            life.outdated()
        elif event == "work":
            step = life.step(now_s)
            if step is Step.START:
                assert not running
                assert now_s >= life.due_s
                life.started()
                running = True
            elif step is Step.END:
                life.ended()
                running = False
            else:
                assert (step is Step.FOLLOW) is (life.state is LifeState.RUNNING)
                assert (step is Step.WAIT) is (life.state is LifeState.RESTING and now_s < life.due_s)
        if life.state is LifeState.FAILED:
            assert life.step(now_s + 1e9) is Step.NOTHING


def test_workers_of_a_scheduler_that_is_gone_start_again_at_once_and_without_a_death() -> None:
    life = ExecutorLife(restarts=True)
    for at_s in range(10 * MOST):
        assert life.step(float(at_s)) is Step.START
        life.started()
        life.outdated()
        life.ended()
    assert life.deaths == 0


def test_what_dies_seldom_is_always_started_again() -> None:
    life = ExecutorLife(restarts=True)
    for death in range(100):
        at_s = 1000.0 * death
        assert life.step(at_s) is Step.START
        life.started()
        life.died(at_s)
        assert life.due_s == at_s + 0.5
        life.ended()


def test_every_state_is_reached_and_only_failure_has_no_way_out() -> None:
    assert {to for _, to in TRANSITIONS.items()} | {LifeState.IDLE} == set(LifeState)
    assert set(LifeState) - {state for state, _ in TRANSITIONS} == {LifeState.FAILED}
