"""Intents in PostgreSQL, with the node rows that go with them: a row explains whatever a cloud may bill."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from control.access.secret import Secret
from control.db.access_tables import bootstrap_token
from control.db.cost_tables import leak
from control.db.database import Database
from control.db.errors import NotWantedError, PlaceTakenError
from control.db.fleet_tables import instance, intent, node
from control.db.leader import check_epoch
from control.db.node_prices import charged_price, exact, stamp_of
from control.lifecycle.intent import Intent, IntentKind, IntentState, intent_key
from control.lifecycle.names import node_name
from control.lifecycle.state import InstanceState


@dataclass(frozen=True, slots=True)
class PostgresIntents:
    """Intents in PostgreSQL. Each method is one transaction; none spans the call to the cloud. All raise
    DatabaseUnavailableError too."""

    database: Database
    epoch: Callable[[], int] | None = None
    """Epoch in which its owner leads: intents are refused with DeposedError once another process does. None: its owner
    is alone by other means, as `medley up` is by a lock on its home."""

    def open_create(
        self,
        instance_id: str,
        place: int,
        offer: str,
        cloud: str,
        usd_per_hour: float,
        token: Secret,
        expires_at: datetime,
        now: datetime,
        disk_usd_per_hour: float = 0.0,
    ) -> str:
        """Record that a node is about to be rented; its name. The same one again while its intent is open.

        The node may register with `token` until `expires_at`; earlier tokens of the name stay good, since a call whose
        reply was lost may have carried one to the node. A new node is charged at `usd_per_hour`, and for its disk, from
        now on. Raises NotWantedError unless the instance is being provisioned, and PlaceTakenError when the place has a
        node, or one is on its way from another offer.
        """
        with self.database.transaction() as connection:
            self._check_lead(connection)
            # The lock makes callers for one instance take turns, and lets no transition pass between check and insert.
            row = select(instance.c.state).where(instance.c.id == instance_id).with_for_update(key_share=True)
            state = connection.execute(row).scalar_one_or_none()
            if state != InstanceState.PROVISIONING:
                raise NotWantedError(f"instance {instance_id} is {state or 'not on record'}: no node is rented for it")
            name = self._on_its_way(connection, instance_id, place, offer)
            if name is None:
                disk = {"disk_usd_per_hour": exact(disk_usd_per_hour)}
                name = _new_node(connection, instance_id, place, offer, cloud, usd_per_hour, now, disk)
            _record(connection, IntentKind.CREATE, name, cloud, now)
            token_row = {"digest": token.digest(), "node": name, "expires_at": expires_at}
            connection.execute(insert(bootstrap_token).values(token_row))
        return name

    def created(self, name: str, provider_id: str, now: datetime) -> None:
        """The cloud has the node. Again: no harm.

        Raises NotWantedError when the node was given up meanwhile: it exists now, and has to be terminated.
        """
        with self.database.transaction() as connection:
            exists = update(node).where(node.c.name == name, node.c.gone_at.is_(None))
            exists = exists.values(provider_id=provider_id, created_at=func.coalesce(node.c.created_at, now))
            held = connection.execute(exists.returning(node.c.name)).scalar_one_or_none()
            _settle(connection, IntentKind.CREATE, name, IntentState.DONE, provider_id, now)
            if held is None:
                record_leak(connection, name, "", None, None, now)
        if held is None:
            raise NotWantedError(f"node {name} was given up while it was being rented: terminate it")

    def refused(self, name: str, text: str, now: datetime) -> None:
        """The cloud will not have the node; nothing came of it, and its place is free again."""
        self._never_was(name, IntentState.REFUSED, text, now)

    def abandoned(self, name: str, now: datetime) -> None:
        """Give up an intent: nobody knows what became of the call, and the cloud does not list the node. Its place is
        free again."""
        self._never_was(name, IntentState.ABANDONED, "not in the cloud's list", now)

    def open_terminate(self, name: str, cloud: str, now: datetime) -> None:
        """Record that a node, which may have no row, is about to be terminated."""
        with self.database.transaction() as connection:
            self._check_lead(connection)
            _record(connection, IntentKind.TERMINATE, name, cloud, now)

    def terminated(self, name: str, now: datetime) -> None:
        """The cloud does not list the node any more: it is gone, and so is whatever was still asked of it."""
        with self.database.transaction() as connection:
            _gone(connection, name, "terminated", now)
            _settle(connection, IntentKind.TERMINATE, name, IntentState.DONE, "gone", now)
            _settle(connection, IntentKind.CREATE, name, IntentState.ABANDONED, "terminated", now)
            end_leak(connection, name, now)

    def leaked(
        self, name: str, cloud: str, asked_at: datetime | None, usd_per_hour: Decimal | None, now: datetime
    ) -> None:
        """The cloud has a node that no row wants: from now on it is counted until it is terminated (`record_leak`)."""
        with self.database.transaction() as connection:
            record_leak(connection, name, cloud, asked_at, usd_per_hour, now)

    def unsettled(self, kind: IntentKind, name: str, text: str) -> None:
        """Note what the cloud said; the intent stays open."""
        with self.database.transaction() as connection:
            key = intent_key(kind, name)
            connection.execute(update(intent).where(intent.c.key == key, _is_open()).values(outcome=text))

    def clouds(self) -> set[str]:
        """Return the clouds with open intents."""
        return set(self.database.read_column(select(intent.c.cloud).where(_is_open()).distinct()))

    def open(self, cloud: str) -> tuple[Intent, ...]:
        """List a cloud's intents that are open, the oldest first."""
        query = select(intent).where(intent.c.cloud == cloud, _is_open()).order_by(intent.c.recorded_at, intent.c.key)
        return tuple(_intent(row) for row in self.database.read(query))

    def _check_lead(self, connection: Connection) -> None:
        if self.epoch is not None:
            check_epoch(connection, self.epoch())

    def _never_was(self, name: str, state: IntentState, text: str, now: datetime) -> None:
        with self.database.transaction() as connection:
            # Only while it is open: another process may have adopted the node, and its row stands then.
            if _settle(connection, IntentKind.CREATE, name, state, text, now):
                _gone(connection, name, f"{state}: {text}", now)
                if state is IntentState.REFUSED:
                    connection.execute(update(node).where(node.c.name == name).values(charged=False))

    @staticmethod
    def _on_its_way(connection: Connection, instance_id: str, place: int, offer: str) -> str | None:
        living = select(node.c.name, node.c.offer, node.c.created_at).where(
            node.c.instance_id == instance_id, node.c.place == place, node.c.gone_at.is_(None)
        )
        row = connection.execute(living).one_or_none()
        if row is None:
            return None
        if row.created_at is not None:
            raise PlaceTakenError(f"place {place} of instance {instance_id} has node {row.name}: release it first")
        if row.offer != offer:
            raise PlaceTakenError(f"node {row.name} is being rented from {row.offer}: settle that first, then {offer}")
        return str(row.name)


def _new_node(
    connection: Connection,
    instance_id: str,
    place: int,
    offer: str,
    cloud: str,
    usd_per_hour: float,
    now: datetime,
    disk: dict[str, Decimal],
) -> str:
    tried = select(func.count()).where(node.c.instance_id == instance_id, node.c.place == place)
    name = node_name(instance_id, place, connection.execute(tried).scalar_one())
    row = {"name": name, "instance_id": instance_id, "place": place, "offer": offer, "cloud": cloud}
    stamp = stamp_of(connection, instance_id, usd_per_hour)
    connection.execute(insert(node).values(row | stamp | disk | {"requested_at": now}))
    return name


def _record(connection: Connection, kind: IntentKind, name: str, cloud: str, now: datetime) -> None:
    """Open the intent, or one more attempt of it."""
    row = {"key": intent_key(kind, name), "kind": kind, "node": name, "cloud": cloud, "state": IntentState.OPEN}
    new = insert(intent).values(row | {"attempts": 1, "recorded_at": now, "attempted_at": now})
    again = {"state": IntentState.OPEN, "attempts": intent.c.attempts + 1, "attempted_at": now, "settled_at": None}
    connection.execute(new.on_conflict_do_update(index_elements=[intent.c.key], set_=again))


def _settle(
    connection: Connection, kind: IntentKind, name: str, state: IntentState, outcome: str, now: datetime
) -> bool:
    settled = update(intent).where(intent.c.key == intent_key(kind, name), _is_open())
    settled = settled.values(state=state, outcome=outcome, settled_at=now)
    return connection.execute(settled.returning(intent.c.key)).scalar_one_or_none() is not None


def _gone(connection: Connection, name: str, because: str, now: datetime) -> None:
    living = update(node).where(node.c.name == name, node.c.gone_at.is_(None))
    connection.execute(living.values(gone_at=now, gone_because=because))


def _is_open() -> Any:
    return intent.c.state == IntentState.OPEN


def _intent(row: Row[Any]) -> Intent:
    return Intent(
        key=row.key,
        kind=IntentKind(row.kind),
        node=row.node,
        cloud=row.cloud,
        state=IntentState(row.state),
        attempts=row.attempts,
        attempted_at=row.attempted_at.astimezone(UTC).isoformat(),
        outcome=row.outcome,
    )


def record_leak(
    connection: Connection,
    name: str,
    cloud: str,
    asked_at: datetime | None,
    usd_per_hour: Decimal | None,
    now: datetime,
) -> None:
    """Record a node that a cloud has and no row wants. One that has a living row is none; a second call changes
    nothing.

    Where its row is on record, and gone, the row says what it costs and explains it until its end; else `asked_at` and
    `usd_per_hour`, as the node itself carries them, or from `now` on at nobody knows what.
    """
    query = select(node, charged_price().label("price")).where(node.c.name == name)
    row = connection.execute(query).one_or_none()
    if row is not None and row.gone_at is None:
        return
    if row is not None:
        cloud, usd_per_hour = row.cloud, usd_per_hour if row.price is None else row.price
        # What was refused is not charged at all: should it exist after all, none of it is explained.
        asked_at = row.gone_at if row.charged else row.requested_at
    values = {"node": name, "cloud": cloud, "since": asked_at or now, "found_at": now, "usd_per_hour": usd_per_hour}
    new = insert(leak).values(values)
    connection.execute(new.on_conflict_do_update(index_elements=[leak.c.node], set_={"gone_at": None}))


def end_leak(connection: Connection, name: str, now: datetime) -> None:
    """End a leak that its cloud does not list any more. A node that was never a leak does no harm."""
    connection.execute(update(leak).where(leak.c.node == name, leak.c.gone_at.is_(None)).values(gone_at=now))
