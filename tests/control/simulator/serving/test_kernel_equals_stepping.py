"""The compiled simulation does what the production schedulers do, request by request, whatever happens to the fleet."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.stepping.simulation import Simulation
from control.simulator.serving.simulate import simulate
from tests.control.simulator.serving.random_worlds import random_world


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40))
def test_every_request_fares_as_with_the_production_schedulers(seed: int) -> None:
    requests, fleet, limits = random_world(seed)
    served = simulate(requests, fleet, limits)
    exact = Simulation(requests, fleet, limits)
    exact.run()
    for call in exact.calls:
        n = call.number
        got = (served.outcome[n], served.first_instance[n], served.last_instance[n])
        assert got == (call.outcome, *call.instances), f"request {n}"
        assert (served.made_tokens[n], served.restarts[n]) == (call.made, call.restarts), f"request {n}"
        times = [served.queued_s, served.first_token_s, served.accepted_s, served.handed_s, served.finish_s]
        wanted = [call.queued_s, call.first_token_s, call.accepted_s, call.handed_s, call.finish_s]
        np.testing.assert_allclose([t[n] for t in times], wanted, rtol=0, atol=1e-9, err_msg=f"request {n}")
    preempted = sum(instance.core.tally.preemptions for instance in exact.instances)
    assert served.preemptions.sum() == preempted
