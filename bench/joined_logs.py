"""The rule that joins logs of prices with logs of availability."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from bench.log_files import AvailabilityTrace, DailyPrices
from control.simulator.offer_log import OfferLog
from control.simulator.step_log import StepLog, step_log
from templates_lib.values.offer import Market, Offer

_DAY_S = 86400.0


def part_of(log: StepLog, from_s: float, length_s: float) -> StepLog:
    """What holds in a time of that length, from second 0 on."""
    inside = list(log.changes(from_s, from_s + length_s))
    return step_log([(0.0, log.at(from_s)), *((time - from_s, value) for time, value in inside)])


def joined_logs(
    prices: Iterable[DailyPrices],
    traces: Sequence[AvailabilityTrace],
    configs: Mapping[str, str],
    nodes: Mapping[str, int],
    days: int,
    seed: int,
) -> list[OfferLog]:
    """Every machine of `configs` (instance type → node configuration) in every region as two offers of AWS.

    Prices are of AWS by region and day, availability is of other machines in single zones at another time, so that a
    rule has to join them. For each spot offer, in the order of region and type, drawn with `seed`: the trace (any may
    serve several offers), the second of it that the world begins at (so that it lasts), and the hour of the day at
    which the offer's price changes. A trace says which share of some nodes a market gave: that share of
    `nodes[instance type]`, rounded, can be held here. Interruptions per hour are those of the whole trace. On demand,
    `nodes` can always be held, at a price that does not change.
    """
    chance = Random(seed)
    length_s = days * _DAY_S
    found: list[OfferLog] = []
    for row in prices:
        if row.instance_type not in configs:
            continue
        most, config = nodes[row.instance_type], configs[row.instance_type]
        trace, change_s = chance.choice(traces), chance.uniform(0, _DAY_S)
        share = part_of(trace.share, chance.uniform(0, trace.duration_s - length_s), length_s)
        spot = step_log((max(day * _DAY_S + change_s - _DAY_S, 0.0), usd) for day, usd in row.spot_usd_per_hour.items())
        stock = step_log(
            (time, float(round(value * most))) for time, value in zip(share.times_s, share.values, strict=True)
        )

        def offer(market: Market, often: float, row: DailyPrices = row, config: str = config) -> Offer:
            place = ("aws", row.region, row.region, row.instance_type, config, market)
            return Offer(*place, 0.0, interruptions_per_hour=often, source="log")

        steady = StepLog((0.0,), (row.on_demand_usd_per_hour,)), StepLog((0.0,), (float(most),))
        found.append(OfferLog(offer(Market.ON_DEMAND, 0.0), *steady))
        found.append(OfferLog(offer(Market.SPOT, trace.losses_per_hour()), spot, stock))
    return found
