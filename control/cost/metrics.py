"""Spending and leaks for Prometheus."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fractions import Fraction

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from control.db.errors import DatabaseUnavailableError
from control.db.ledger import PostgresLedger
from control.ledger.charge import Charge
from control.ledger.period import Period, month_so_far

_EVER = datetime(2000, 1, 1, tzinfo=UTC)
_LABELS = ("fleet", "project", "cloud", "market")


class CostCollector(Collector):
    """Reads the ledger whenever it is asked. While the database is away there is no figure rather than a wrong one."""

    def __init__(self, ledger: PostgresLedger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that the database is not asked when the collector is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        now = self._clock()
        try:
            month = self._ledger.charges(month_so_far(now))
            leaks = self._ledger.leaks(Period(_EVER, now))
        except DatabaseUnavailableError:
            return
        yield from _spent([charge for charge in month if not charge.leaked])
        yield from _leaked(leaks)


def _spent(charges: list[Charge]) -> Iterable[Metric]:
    burn = GaugeMetricFamily("medley_cost_usd_per_hour", "What held nodes cost now", labels=_LABELS)
    month = GaugeMetricFamily("medley_cost_month_usd", "Spent since the month began, in UTC", labels=_LABELS)
    unpriced = GaugeMetricFamily(
        "medley_cost_unpriced_node_seconds", "Of this month, of nodes without a known price", labels=_LABELS
    )
    groups: dict[tuple[str, str, str, str], list[Charge]] = {}
    for charge in charges:
        groups.setdefault((charge.fleet, charge.project, charge.cloud, charge.market), []).append(charge)
    for labels, group in groups.items():
        burn.add_metric(labels, float(sum((c.usd_per_hour for c in group), Fraction(0))))
        month.add_metric(labels, float(sum((c.usd for c in group), Fraction(0))))
        unpriced.add_metric(labels, sum(c.unpriced_node_s for c in group))
    return burn, month, unpriced


def _leaked(charges: tuple[Charge, ...]) -> Iterable[Metric]:
    """Zero without a label where nothing ever leaked, so that an alert on it has something to look at."""
    usd = CounterMetricFamily(
        "medley_leaked_usd", "Billed for nodes that no row explains, since ever; zero normally", labels=("cloud",)
    )
    nodes = GaugeMetricFamily("medley_leaked_nodes", "Nodes that exist and that no row explains", labels=("cloud",))
    for charge in charges:
        usd.add_metric((charge.cloud,), float(charge.usd))
        nodes.add_metric((charge.cloud,), charge.nodes)
    if not charges:
        usd.add_metric(("",), 0.0)
        nodes.add_metric(("",), 0)
    return usd, nodes
