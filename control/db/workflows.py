"""Workflows in PostgreSQL: the code of apps, by content, and the names under which it is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Row, func, select
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.nearest import not_stored
from control.db.run_tables import app_version, workflow, workflow_run
from control.runs.record import AppVersion
from control.runs.run_state import OPEN
from medley_sdk.flows.messages import FlowInfo


@dataclass(frozen=True, slots=True)
class StoredWorkflow:
    project: str
    name: str
    version: str
    file: str
    pushed_at: datetime
    about: FlowInfo
    open_runs: int


@dataclass(frozen=True, slots=True)
class PostgresWorkflows:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def push(self, version: AppVersion, flows: Sequence[FlowInfo]) -> None:
        """Store code, and have new runs of its workflows use it. Runs that there are keep theirs. Again: no harm."""
        row = {
            "id": version.id,
            "project": version.project,
            "file": version.file,
            "source": version.source,
            "pushed_at": version.pushed_at,
            "pushed_by": version.pushed_by,
        }
        with self.database.transaction() as connection:
            connection.execute(insert(app_version).values(row).on_conflict_do_nothing())
            for flow in flows:
                values = {"version_id": version.id, "about": flow, "pushed_at": version.pushed_at}
                new = insert(workflow).values(project=version.project, name=flow.name, **values)
                again = new.on_conflict_do_update(index_elements=[workflow.c.project, workflow.c.name], set_=values)
                connection.execute(again)

    def page(self, limit: int, project: str | None = None, after: tuple[str, str] = ("", "")) -> list[StoredWorkflow]:
        """List workflows by project and name, those that follow `after`."""
        query = _query().order_by(workflow.c.project, workflow.c.name).limit(limit)
        query = query.where(func.row(workflow.c.project, workflow.c.name) > func.row(*after))
        if project is not None:
            query = query.where(workflow.c.project == project)
        return [_stored(row) for row in self.database.read(query)]

    def load(self, project: str, name: str) -> StoredWorkflow:
        """Raises NotStoredError with the nearest name of the project."""
        row = self.database.read_one(_query().where(workflow.c.project == project, workflow.c.name == name))
        if row is None:
            known = self.database.read_column(select(workflow.c.name).where(workflow.c.project == project))
            raise not_stored("workflow", name, list(known))
        return _stored(row)

    def version(self, version_id: str) -> AppVersion:
        """Raises NotStoredError."""
        row = self.database.read_one(select(app_version).where(app_version.c.id == version_id))
        if row is None:
            raise not_stored("version", version_id, [])
        return AppVersion(row.id, row.project, row.file, row.source, row.pushed_at.astimezone(UTC), row.pushed_by)


def _query() -> Any:
    open_runs = (
        select(func.count())
        .where(
            workflow_run.c.project == workflow.c.project,
            workflow_run.c.workflow == workflow.c.name,
            workflow_run.c.state.in_(OPEN),
        )
        .scalar_subquery()
    )
    return select(workflow, app_version.c.file, open_runs.label("open_runs")).join(
        app_version, app_version.c.id == workflow.c.version_id
    )


def _stored(row: Row[Any]) -> StoredWorkflow:
    about = msgspec.json.decode(row.about, type=FlowInfo)
    at = row.pushed_at.astimezone(UTC)
    return StoredWorkflow(row.project, row.name, row.version_id, row.file, at, about, row.open_runs)
