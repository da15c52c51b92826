"""What is remembered of the runs of many workflows."""

import random

from policies.workflows.call_table import MOST_CALLS, CallTable
from policies.workflows.learned_runs import LearnedRuns


def test_a_table_is_of_the_runs_that_it_remembers_as_if_there_had_been_no_others() -> None:
    chance, learned = random.Random(4), LearnedRuns(most_runs=5)
    runs = [[chance.choice("abc") for _ in range(chance.randrange(6))] for _ in range(40)]
    for at, run in enumerate(runs):
        learned.learn("app", run)
        fresh = CallTable()
        for each in runs[max(0, at - 4) : at + 1]:
            fresh.learn(each)
        for length in range(4):
            made = [chance.choice("abc") for _ in range(length)]
            assert learned.table("app").following(made) == fresh.following(made)


def test_what_is_learned_has_a_bound_and_the_workflow_used_least_recently_goes() -> None:
    chance, most = random.Random(5), 60
    learned = LearnedRuns(most_learned=most)
    for _ in range(300):
        app = f"app-{chance.randrange(12)}"
        learned.learn(app, ["a"] * chance.randrange(20))
        assert learned.knows(app)
        assert 0 < learned.learned <= most
    for app in ("old", "new"):
        learned.learn(app, ["a"] * 20)
    learned.table("old")
    learned.learn("third", ["a"] * 30)
    assert (learned.knows("old"), learned.knows("new")) == (True, False)


def test_a_run_beyond_every_bound_is_remembered_alone_and_in_part() -> None:
    learned = LearnedRuns(most_learned=10)
    learned.learn("small", ["a"])
    learned.learn("endless", [f"s{at}" for at in range(2 * MOST_CALLS)])
    assert learned.learned == MOST_CALLS
    assert not learned.knows("small")
    assert learned.table("endless").likeliest(["s0"]) == "s1"
