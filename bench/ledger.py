"""Seconds to reckon what a month of a fleet of 100, 1,000 and 10,000 nodes has cost, four prices a node, from its rows.

    python -m bench.ledger

`charges` is the ledger's query for the month so far, by instance; `report` all of `medley cost` (four such queries);
the baseline reads the same rows and adds them up in Python, exactly. All must agree. Exits with 1 when the report of
10,000 nodes takes more than a second or a sum differs.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from sqlalchemy import insert, select, text

from control.cost.report import cost_report
from control.db.cost_tables import node_price
from control.db.database import Database, open_database
from control.db.fleet_tables import instance, node
from control.db.ledger import PostgresLedger
from control.ledger.cost_line import By
from control.ledger.period import month_so_far

BAR_S = 1.0
RUNS = 5
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GANG, CHANGES = 10, 3


def fill(database: Database, nodes: int) -> None:
    """Half of them are gone; all were held for days and changed their price each day."""
    since = NOW - timedelta(days=CHANGES + 2)
    instances = [
        {
            "id": f"i{i}", "fleet": f"f{i % 20}", "plan_id": "p", "template_id": "t", "template": {}, "zone": "aws/z",
            "market": "spot", "state": "ready", "version": 1, "state_since": since,
        }
        for i in range(nodes // GANG)
    ]  # fmt: skip
    held = [
        {
            "name": f"n{i}", "instance_id": f"i{i // GANG}", "place": i % GANG, "offer": "aws/z/x/spot", "cloud": "aws",
            "requested_at": since + timedelta(seconds=i), "gone_at": NOW - timedelta(seconds=i) if i % 2 else None,
            "usd_per_hour": 1 + i % 7, "model": f"m{i % 5}", "project": "default",
        }
        for i in range(nodes)
    ]  # fmt: skip
    prices = [
        {"node": f"n{i}", "since": since + timedelta(days=day, seconds=i), "usd_per_hour": 2 + (i + day) % 5}
        for i in range(nodes)
        for day in range(1, CHANGES + 1)
    ]
    with database.transaction() as connection:
        connection.execute(text("TRUNCATE node_price, node, instance CASCADE"))
        connection.execute(insert(instance), instances)
        connection.execute(insert(node), held)
        connection.execute(insert(node_price), prices)
        connection.execute(text("ANALYZE"))


def in_python(database: Database) -> Fraction:
    with database.transaction() as connection:
        rows = connection.execute(select(node)).all()
        changes = connection.execute(select(node_price).order_by(node_price.c.since)).all()
    since, total = month_so_far(NOW).since, Fraction(0)
    steps = {row.name: [(row.requested_at, row.usd_per_hour)] for row in rows}
    for change in changes:
        steps[change.node].append((change.since, change.usd_per_hour))
    for row in rows:
        ends = [at for at, _ in steps[row.name][1:]] + [row.gone_at or NOW]
        for (begin, price), end in zip(steps[row.name], ends, strict=True):
            microseconds = max(timedelta(0), end - max(begin, since)) // timedelta(microseconds=1)
            total += Fraction(price) * microseconds / (3600 * 10**6)
    return total


def median_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    met = True
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as home, open_database(data_dir=Path(home)) as database:
        ledger, month = PostgresLedger(database), month_so_far(NOW)
        print("nodes   charges, s   report, s   in Python, s   ratio")
        for nodes in (100, 1_000, 10_000):
            fill(database, nodes)
            charges_s = median_s(lambda: ledger.charges(month))
            report_s = median_s(lambda: cost_report(ledger, month, By.MODEL, NOW))
            python_s = median_s(lambda: in_python(database))
            same = sum(c.usd for c in ledger.charges(month)) == in_python(database)
            met = met and same and report_s <= BAR_S
            ratio = python_s / charges_s
            figures = f"{nodes:6,} {charges_s:11.4f} {report_s:11.4f} {python_s:14.4f} {ratio:7.1f}"
            print(f"{figures}{'' if same else ' DIFFERS'}", flush=True)
    print(f"bar {BAR_S} s for the report of 10,000 nodes, all sums equal: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
