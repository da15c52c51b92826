"""What happened: events, load and latencies, alerts, budgets, who may speak."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, text

from bench.console_world.specs import AGENTS, ASSISTANTS, PLANNED_PER_S, PROMISING, SERVED
from control.access.role import Role
from control.access.use_limits import UseLimits
from control.alerts.watch import AlertWatch
from control.db.alerts import PostgresAlerts
from control.db.api_tokens import PostgresApiTokens
from control.db.budgets import PostgresBudgets, Scope
from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.demand_tables import COUNTS, demand_line, demand_report, key_use
from control.db.load_series import PostgresLoadSeries
from control.db.projects import PostgresProjects
from control.db.reconcile_tables import event as event_table
from control.db.series_tables import capacity_sample
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample
from control.db.webhooks import PostgresWebhooks, Webhook
from control.fleet.capacities import capacities
from policies.alert_rules import Alert, AlertKind, Severity
from policies.budget import Budget
from policies.correction import Correction
from policies.degradation import Rung
from policies.metered_work import REQUEST, MeteredClass, text_classes

EVENTS = 2_000
_KINDS = {
    "instance.ready": "every stage holds its layers",
    "instance.drained": "the plan does not want it any more",
    "plan.made": "62.18 $/h, gap 0.0 %, all demand served",
    "plan.accepted": "ada: cheap enough",
    "offer.refused": "InsufficientInstanceCapacity: there is no capacity of the type in this zone now",
    "node.taken": "the cloud takes the spot node back in 120 s",
    "session.started": "ada: signed in",
}
_BOUNDS_S = (0.1, 0.25, 0.5, 0.9, 1.2, 1.5, 2.5, 5.0, None)
_TPOT_BOUNDS_S = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.1, 0.25, None)


def fill_projects(database: Database, now: datetime) -> None:
    PostgresProjects(database).create("support", "Bots that answer customers", now - timedelta(days=60))
    PostgresProjects(database).create("search", "Agents behind the search page", now - timedelta(days=44))


def fill_past(
    database: Database,
    rng: random.Random,
    plans: Sequence[str],
    instances: Sequence[str],
    now: datetime,
    scale: float,
) -> None:
    """`plans`, `instances`: ids that events speak of. `scale`: of the world."""
    _events(database, rng, plans, instances, now)
    _load(database, rng, now, scale, _tokens(database, now))
    _latencies(database, rng, now)
    _levels(database, now)
    _correct(database, now)
    budgets = PostgresBudgets(database)
    budgets.put(Scope.PROJECT, "support", Budget(usd_per_month=900_000.0), now - timedelta(days=30))
    budgets.put(Scope.FLEET, AGENTS, Budget(65.0, None, 5.0), now - timedelta(days=9))
    budgets.give_up(AGENTS, Rung.MORE_SPOT, ("budget fleet search-agents allows 65 $/h",), now - timedelta(hours=5))
    AlertWatch(database, lambda: now).step()
    failing = "6 instances failed within an hour, the last one because out of memory while it loaded layers 20 to 31"
    replaced = "its plan rests on step times that newer profiles have replaced: hold it to a newer plan"
    alerts = (
        Alert(AlertKind.OLD_PROFILE, f"fleet {ASSISTANTS}", Severity.WARNING, replaced),
        Alert(AlertKind.FAILING, f"fleet {ASSISTANTS}", Severity.CRITICAL, failing),
    )
    PostgresAlerts(database).observe(alerts, (), now)
    hook = Webhook(
        "on-call",
        "https://alerts.example.com/medley",
        "env:MEDLEY_WEBHOOK_ON_CALL",
        (AlertKind.FAILING,),
        internal=False,
    )
    PostgresWebhooks(database).put(hook, now - timedelta(days=6))


def _tokens(database: Database, now: datetime) -> dict[str, str]:
    """Make tokens of people, programs and clients; project → id of a client's."""
    tokens, since = PostgresApiTokens(database), now - timedelta(days=20)
    tokens.create("ci", Role.OPERATOR, since, now + timedelta(days=30))
    tokens.create("grafana", Role.VIEWER, since)
    front_end, _ = tokens.create("chat front end", Role.CLIENT, since, None, "support")
    partner, _ = tokens.create("partner", Role.CLIENT, now - timedelta(days=4), None, "search", UseLimits(600, 250_000))
    left, _ = tokens.create("ben, who left", Role.ADMIN, now - timedelta(days=50))
    tokens.revoke(left.id, now - timedelta(days=3))
    return {each.project: each.id for each in (front_end, partner)}


def _events(
    database: Database, rng: random.Random, plans: Sequence[str], instances: Sequence[str], now: datetime
) -> None:
    subjects = {
        "instance": instances[:40],
        "plan": plans,
        "offer": ["aws/use1-az4/g6e.xlarge/spot", "gcp/us-central1-a/g2-standard-4/spot"],
        "node": [f"medley-{name}-0-0" for name in instances[:2]],
        "session": ["9bde252c0666"],
    }
    rows = []
    for number in range(EVENTS):
        kind = rng.choice(list(_KINDS))
        person = kind in ("plan.accepted", "session.started")
        rows.append(
            {
                "at": now - timedelta(seconds=150 * (EVENTS - number)),
                "actor": "token:9bde252c0666" if person else "reconciler",
                "kind": kind,
                "fleet": "" if kind == "session.started" else rng.choice((ASSISTANTS, AGENTS)),
                "subject": rng.choice(subjects[kind.partition(".")[0]]),
                "text": _KINDS[kind],
                "detail": {"attempt": 1 + number % 3} if kind == "offer.refused" else {},
                "trace": f"{rng.randrange(16**32):032x}" if person else "",
            }
        )
    with database.transaction() as connection:
        connection.execute(insert(event_table), rows)


def _load(database: Database, rng: random.Random, now: datetime, scale: float, keys: Mapping[str, str]) -> None:
    """What a gateway was offered, a minute at a time, over the last day: up to what was planned for, in a tide. `keys`:
    project → a key, which most of what was served was for."""
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    reports, lines, hours = [], [], dict[tuple[object, ...], dict[str, object]]()
    served = Counter[tuple[object, ...]]()
    for number in range(1, 60 * 24):
        started = minute - timedelta(minutes=number)
        gateway = {"gateway": "gateway-1/a", "started_at": started}
        reports.append(gateway | {"seconds": 60, "revision": 1, "reported_at": started + timedelta(seconds=65)})
        for fleet, apps in SERVED.items():
            for app in apps:
                planned = 60 * scale * (PLANNED_PER_S[app] if fleet == ASSISTANTS else 15)
                tide = 0.6 + 0.3 * math.sin(started.timestamp() / 13_751)
                requests = int(planned * tide * rng.uniform(0.95, 1.05))
                of = {"app": app, "request_type": "chat", "project": "support" if fleet == ASSISTANTS else "search"}
                if fleet == AGENTS and app == "phi-4-14b":
                    of["request_type"] = "search"
                refused = requests // 900
                for work in (MeteredClass(*REQUEST, 1.0), *text_classes(app)):
                    counts = zip(COUNTS, (requests, refused, requests - refused), strict=True)
                    units = {name: work.units(count, 900 * count, 180 * count) for name, count in counts}
                    what = {"fleet": fleet, "work_class": work.work_class, "unit": work.unit}
                    lines.append(gateway | of | what | units)
                    use = (
                        {"gateway": "", "started_at": started.replace(minute=0), "key": keys[of["project"]]} | of | what
                    )
                    served[tuple(use.values())] += units["served"] * 7 // 10
                    hours[tuple(use.values())] = use
    with database.transaction() as connection:
        connection.execute(insert(demand_report), reports)
        connection.execute(insert(demand_line), lines)
        connection.execute(insert(key_use), [use | {"served": served[whose]} for whose, use in hours.items()])


def _latencies(database: Database, rng: random.Random, now: datetime) -> None:
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    samples = [
        SloSample(
            "http://gateway-1:8000", model, minute - timedelta(minutes=number),
            LatencyHistogram(_BOUNDS_S, _spread(rng)), LatencyHistogram(_TPOT_BOUNDS_S, _spread(rng)),
            _judged(rng) if model == PROMISING else (),
        )
        for number in range(1, 60 * 6)
        for model in sorted({name for names in SERVED.values() for name in names})
    ]  # fmt: skip
    PostgresSloSamples(database).add(samples)


# A day's tide, lowest at night, in which what nodes say now is the end.
_LEVELS = text(
    """
    INSERT INTO instance_load
        (instance_id, begins_at, fleet, model, zone, looks, running, waiting, kv_blocks, kv_used, cpu)
    SELECT id, begins_at, fleet, model, zone, 1, tide * running, tide * waiting, kv_blocks, tide * kv_used, tide * cpu
    FROM (
        SELECT instance.id, instance.fleet, max(node.model) AS model, instance.zone,
               sum((load ->> 'running')::float8) AS running, sum((load ->> 'waiting')::float8) AS waiting,
               sum((load ->> 'kv_blocks')::float8) AS kv_blocks,
               sum((load ->> 'kv_blocks')::float8 - (load ->> 'kv_blocks_free')::float8) AS kv_used,
               sum((load ->> 'cpu_share')::float8) AS cpu
        FROM instance JOIN node ON node.instance_id = instance.id
        WHERE instance.state <> 'terminated' AND node.load ->> 'scheduler' <> ''
        GROUP BY instance.id
    ) AS level, (
        SELECT begins_at, 0.65 + 0.3 * sin(extract(epoch FROM begins_at) / 13751) + 0.05 * random() AS tide
        FROM generate_series(CAST(:since AS timestamptz), :until, interval '5 minutes') AS begins_at
    ) AS moment
    ON CONFLICT DO NOTHING
    """
)


def _levels(database: Database, now: datetime) -> None:
    """Load of every instance and capacity of every fleet over the last day, and the hours that they became."""
    until = now.astimezone(UTC).replace(minute=now.minute // 5 * 5, second=0, microsecond=0)
    since = until - timedelta(hours=25)
    database.write(_LEVELS, {"since": since, "until": until - timedelta(minutes=5)})
    rows = [
        {
            "fleet": fleet,
            "work_class": name,
            "begins_at": since + number * timedelta(minutes=5),
            "looks": 1,
            "units_per_s": units,
        }
        for (fleet, name), units in capacities(database).items()
        for number in range(25 * 12)
    ]
    database.write(insert(capacity_sample), rows)
    PostgresLoadSeries(database).roll_up(now)
    PostgresSloSamples(database).roll_up(now)


def _judged(rng: random.Random) -> tuple[Judged, ...]:
    """Prompts of which too few were in time, and answers that were fluent."""
    answers = float(rng.randrange(700, 900))
    late = {"prefill": rng.uniform(0.006, 0.03), "decode": rng.uniform(0.0, 0.006)}
    objectives = {"prefill": "ttft", "decode": "tpot"}
    return tuple(
        Judged(f"{PROMISING}/{phase}", objective, answers, answers - round(answers * late[phase]))
        for phase, objective in objectives.items()
    )


def _correct(database: Database, now: datetime) -> None:
    """What the loop made of it."""
    reason = (
        "97.62 % of 46,208 answers since 09:12 UTC kept the objective (97.18 % to 97.99 % beyond chance), and 99 % "
        "were promised"
    )
    short = Correction(0.9, now - timedelta(minutes=42), reason, fell_short_at=1.0)
    PostgresCorrections(database).put(ASSISTANTS, {f"{PROMISING}/prefill": short})


def _spread(rng: random.Random) -> tuple[float, ...]:
    """Counts by bucket: the last two are beyond most objectives."""
    return tuple(float(int(n * rng.uniform(0.7, 1.3))) for n in (80, 240, 420, 190, 50, 12, 4, 1, 0))
