"""List endpoints with a million events: p99 of each, against the same pages by OFFSET.

A real PostgreSQL and a real `medley api` process; 1,000 instances of 10 nodes each, 1,000,000 events, 2,000 plans of
40 KB each. Pages are asked for from the newest on, from the middle and from the far end. Bar: p99 <= 100 ms for every
list at one caller, once the process has answered each, and the process stays below --memory-mib. Exit status 1 when a
bar is missed.

    python -m bench.api_lists [--events 1000000] [--requests 200]
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
from sqlalchemy import text

from bench.api_process import serving
from control.access.role import Role
from control.api.page import encode
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database, open_database
from control.db.embedded import embedded_server

BAR_MS = 100.0
_EVENTS = text(
    """
    INSERT INTO event (at, actor, kind, fleet, subject, text, detail, trace)
    SELECT now() - (:events - n) * interval '1 s', 'reconciler', 'kind.' || n % 40, 'fleet-' || n % 50,
           'i' || lpad(to_hex(n % 1000), 12, '0'), 'why it happened, in the words of whoever did it', '{}', ''
    FROM generate_series(1, :events) AS n
    """
)
_INSTANCES = text(
    """
    INSERT INTO instance (id, fleet, plan_id, template_id, template, zone, market, state, version, state_since)
    SELECT 'i' || lpad(to_hex(n), 12, '0'), 'fleet-' || n % 50, 'plan-1', :template_id, CAST(:template AS json),
           'aws/us-east-1a', 'on-demand', 'ready', 4, now() FROM generate_series(1, :instances) AS n
    """
)
_NODES = text(
    """
    INSERT INTO node
        (name, instance_id, place, offer, cloud, provider_id, requested_at, created_at, last_heartbeat, load)
    SELECT 'medley-' || id || '-' || place, id, place, 'aws/us-east-1a/g6.xlarge/on-demand', 'aws', 'p-' || place,
           now(), now(), now(), CAST('{"cpu_share": 0.5, "memory_mib": 9, "scheduler": "ready", "running": 3}' AS json)
    FROM instance, generate_series(0, 9) AS place
    """
)
_PLANS = text(
    """
    INSERT INTO plan (id, snapshot_version, name, policy, usd_per_hour, body, summary, created_at)
    SELECT 'plan-' || n, 'snapshot', 'fleet-' || n % 50, 'medley', n, CAST(:body AS json),
           CAST(:summary AS json), now() - n * interval '1 min'
    FROM generate_series(1, 2000) AS n
    """
)
_SUMMARY = '{"status":"optimal","init_usd":0,"unmet":{},"gap":0,"bound":1,"solve_s":1,"instances":3,"nodes":9}'


_STAGE_NODES = {"config": "L4:1/n10", "count": 10, "weight": 0.1, "tp": 1, "dp": 1, "pp": 1, "ep": 1}
_STAGE = {"first_layer": 0, "layers": 32, "first": True, "last": True}
_TEMPLATE = {
    "id": "0" * 32,
    "model": "llama-3.1-8b",
    "model_revision": "1",
    "dtype": "bf16",
    "engine": "torch",
    "dispatch": "lockstep-v1",
    "nodes": {"L4:1/n10": 10},
    "placement": {
        "kind": "pipeline",
        "version": 1,
        "payload": {
            "stages": [
                _STAGE | {"nodes": [_STAGE_NODES | {"batch_cap": 8, "chunk_tokens": 128, "kv_blocks": 64}]},
            ]
        },
    },
}


def fill(database: Database, events: int) -> None:
    with database.transaction() as connection:
        connection.execute(_EVENTS, {"events": events})
        connection.execute(_INSTANCES, {"template_id": "0" * 32, "template": json.dumps(_TEMPLATE), "instances": 1000})
        connection.execute(_NODES)
        connection.execute(text("INSERT INTO snapshot (version, library_version, body) VALUES ('snapshot', 'l', '{}')"))
        body = json.dumps({"padding": [n * 0.1 for n in range(2_000)]})
        connection.execute(_PLANS, {"body": body, "summary": _SUMMARY})
    with database.session() as connection:
        connection.execute(text("ANALYZE"))


def lists(events: int) -> dict[str, list[str]]:
    """What is measured → pages of it: the newest, from the middle, from the far end."""
    cursors = ["", *(f"&cursor={encode((n,))}" for n in (events // 2, 200))]
    found = {
        f"events{which or ' of all'}": [f"/events?limit=50{which}{cursor}" for cursor in cursors]
        for which in ("", "&fleet=fleet-7", "&subject=i000000000100", "&kind=kind.3")
    }
    found["instances"] = [f"/instances?limit=100{c}" for c in ("", f"&cursor={encode(('i0000000001f4',))}")]
    found["instances of a fleet"] = ["/instances?limit=100&fleet=fleet-7"]
    found["plans"] = ["/plans?limit=100", "/plans?limit=100&fleet=fleet-7"]
    found |= {name: [f"/{name}?limit=100"] for name in ("operations", "tokens", "fleets", "projects")}
    return found


def offset_ms(database: Database, events: int) -> float:
    """The median of what OFFSET takes for the page in the middle."""
    query = text("SELECT * FROM event ORDER BY sequence DESC LIMIT 51 OFFSET :skip")
    took = []
    for _ in range(5):
        began_s = time.perf_counter()
        with database.transaction() as connection:
            connection.execute(query, {"skip": events // 2}).all()
        took.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=200, help="of each list")
    parser.add_argument("--memory-mib", type=float, default=250.0, help="that the process may have")
    arguments = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o711)
        with embedded_server(home / "postgres") as server:
            url = f"postgresql://postgres@/postgres?host={server.socket_dir}"
            with open_database(url, upgrade=True) as database, serving(url, home) as (process, base):
                fill(database, arguments.events)
                _, token = PostgresApiTokens(database).create("bench", Role.ADMIN, datetime.now(UTC))
                headers = {"Authorization": f"Bearer {token.reveal()}"}
                with httpx.Client(base_url=f"{base}/api/v1", headers=headers, timeout=60) as client:
                    print(f"{arguments.events:,} events, 1,000 instances, 10,000 nodes; one caller")
                    for name, pages in lists(arguments.events).items():
                        for page in pages:  # caches of a process that has just started
                            one(client, page)
                        took = sorted(one(client, pages[n % len(pages)]) for n in range(arguments.requests))
                        p50, p99 = took[len(took) // 2], took[int(0.99 * (len(took) - 1))]
                        print(f"{name:<32} p50 {p50:7.1f} ms   p99 {p99:7.1f} ms")
                        if p99 > BAR_MS:
                            missed.append(f"{name}: p99 {p99:.1f} ms")
                    middle = sorted(one(client, lists(arguments.events)["events of all"][1]) for _ in range(20))[10]
                offset = offset_ms(database, arguments.events)
                print(
                    f"page in the middle: {middle:.1f} ms over HTTP by cursor, {offset:.1f} ms in SQL alone by OFFSET"
                )
                mib = process.memory_info().rss / 2**20
                print(f"memory of the API process: {mib:.0f} MiB")
                if mib > arguments.memory_mib:
                    missed.append(f"memory: {mib:.0f} MiB")
    for each in missed:
        print(f"MISSED {each}")
    return 1 if missed else 0


def one(client: httpx.Client, path: str) -> float:
    began_s = time.perf_counter()
    client.get(path).raise_for_status()
    return 1000 * (time.perf_counter() - began_s)


if __name__ == "__main__":
    sys.exit(main())
