"""Metrics of several workers, as one gateway shows them."""

from control.gateway.metrics import GatewayMetrics
from control.gateway.workers.totals import families_of, lasting, merged, text


def shown(live: list[GatewayMetrics], ended: list[GatewayMetrics] = []) -> dict[str, float]:  # noqa: B006
    past = [each for metrics in ended for each in lasting(families_of(metrics))]
    lines = text(merged([families_of(metrics) for metrics in live], past)).decode().splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    assert len({name for name, _ in rows}) == len(rows), "each thing has one value"
    return {name.removeprefix("medley_gateway_"): float(value) for name, value in rows}


def test_one_worker_shows_what_it_would_alone():
    alone = GatewayMetrics()
    alone.requests.labels("/v1/completions", 200).inc(3)
    alone.first_token_s.labels("m").observe(0.02)
    alone.instance_up.labels("e1").set(1)
    families = merged([families_of(alone)])
    assert sorted(text(families).splitlines()) == sorted(alone.text().splitlines())


def test_counts_add_up_and_those_of_workers_that_ended_stay():
    one, other, ended = GatewayMetrics(), GatewayMetrics(), GatewayMetrics()
    for metrics, times in ((one, 1), (other, 2), (ended, 4)):
        metrics.requests.labels("/v1/completions", 200).inc(times)
        metrics.open_calls.inc(times)
        for _ in range(times):
            metrics.first_token_s.labels("m").observe(0.02)
    before = shown([one, other, ended])
    after = shown([one, other], [ended])
    for found in (before, after):
        assert found['requests_total{endpoint="/v1/completions",status="200"}'] == 7
        assert found['time_to_first_token_seconds_count{model="m"}'] == 7
        assert found['time_to_first_token_seconds_bucket{le="0.025",model="m"}'] == 7
        assert found['time_to_first_token_seconds_bucket{le="0.01",model="m"}'] == 0
    assert (before["open_calls"], after["open_calls"]) == (7, 3)


def test_what_is_said_of_an_instance_is_not_added_up():
    one, other = GatewayMetrics(), GatewayMetrics()
    for metrics, running in ((one, 5), (other, 6)):
        metrics.instance_up.labels("both").set(1)
        metrics.instance_running.labels("both").set(running)
        metrics.instance_pending_s.labels("both").set(running / 10)  # each knows of the other's
        metrics.instance_kv_free.labels("both").set(100 - running)
    one.table_version.set(8)
    other.table_version.set(7)
    one.instance_up.labels("only-one").set(1)
    one.instance_kv_free.labels("only-one").set(9)
    found = shown([one, other])
    assert found['instance_up{instance="both"}'] == 1
    assert found['instance_up{instance="only-one"}'] == 0  # a client may meet the worker that does not reach it
    assert found['instance_running{instance="both"}'] == 6
    assert found['instance_pending_seconds{instance="both"}'] == 0.6
    assert found['instance_kv_blocks_free{instance="both"}'] == 94
    assert found['instance_kv_blocks_free{instance="only-one"}'] == 9
    assert found["table_version"] == 7
