"""Push workflows, start their runs, and end them."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from control.actions.context import ActionContext
from control.actions.projects import check_project
from control.actions.refusal import WrongFieldError
from control.db.runs import PostgresRuns
from control.db.workflows import PostgresWorkflows, StoredWorkflow
from control.orchestrator.inspected import inspected
from control.runs.record import AppVersion, RunRecord
from control.tasks.task_source import TaskSource
from medley_sdk.flows.messages import MOST_GIVEN_BYTES
from templates_lib.values.nearest_name import nearest_name

_ID_BYTES = 16


def push_app(act: ActionContext, project: str, source: TaskSource, *, needs_isolation: bool) -> list[StoredWorkflow]:
    """Store the code of an app: new runs of its workflows use it, runs that there are keep theirs. `needs_isolation`:
    refuse to load it where the network cannot be kept from it. Raises WrongFieldError, with the line, for code that
    cannot be loaded, and for types that do not travel."""
    try:
        app = inspected(source, needs_isolation=needs_isolation)
    except ValueError as error:
        raise WrongFieldError("source", str(error)) from None
    if not app.flows:
        raise WrongFieldError("source", f"{source.file}: has no workflow; define one with @workflow and `async def`")
    content = msgspec.json.encode((project, source.file, source.text))
    version_id = hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()
    version = AppVersion(version_id, project, source.file, source.text, act.now, act.actor)
    with act.as_one() as one:
        check_project(one.database, project)
        workflows = PostgresWorkflows(one.database)
        workflows.push(version, app.flows)
        names = [flow.name for flow in app.flows]
        one.record("workflow.pushed", f"pushed {', '.join(names)} of project {project}", version_id)
        return [workflows.load(project, name) for name in names]


def start_run(act: ActionContext, project: str, workflow: str, arguments: dict[str, Any]) -> RunRecord:
    """Ask for a run. Raises NotStoredError with the nearest name, WrongFieldError for arguments that the workflow does
    not take; of which types they are is found when the run starts."""
    flow = PostgresWorkflows(act.database).load(project, workflow)
    takes = {each.name: each.required for each in flow.about.parameters}
    for name in arguments:
        if name not in takes:
            raise WrongFieldError("arguments", f"{workflow} takes no {name!r}; {nearest_name(name, takes)}")
    if missing := [name for name, required in takes.items() if required and name not in arguments]:
        raise WrongFieldError("arguments", f"{workflow} needs {', '.join(missing)}: give each a value")
    stored_value("arguments", arguments)
    return PostgresRuns(act.database).create(flow, arguments, act.actor, act.now)


def send_signal(act: ActionContext, run_id: str, name: str, value: Any) -> None:
    """Send a signal to a run; the row says who did. Raises NotStoredError, InUseError for a run that has ended."""
    PostgresRuns(act.database).send(run_id, name, stored_value("value", value), act.actor, act.now)


def stored_value(field: str, value: Any) -> bytes:
    """Return a value as it travels to a run. Raises WrongFieldError for one that does not."""
    try:
        data = msgspec.msgpack.encode(value)
    except (OverflowError, TypeError, ValueError, RecursionError) as error:
        raise WrongFieldError(field, f"does not travel: {error}") from None
    if len(data) > MOST_GIVEN_BYTES:
        raise WrongFieldError(field, f"is larger than {MOST_GIVEN_BYTES >> 20} MiB")
    return data


def cancel_run(act: ActionContext, run_id: str) -> RunRecord:
    """End a run. One that has ended stays as it is. Raises NotStoredError."""
    with act.as_one() as one:
        run = PostgresRuns(one.database).cancel(run_id, act.now)
        one.record("run.cancelled", f"asked to cancel run {run_id} of {run.workflow}", run_id)
        return run


def resume_run(
    act: ActionContext, run_id: str, resolved: Mapping[str, bytes | None], max_usd: float | None = None
) -> RunRecord:
    """Have a run that failed go on. `resolved`: call path → what becomes of a call of which nobody knows what became of
    it: its result (MessagePack), or None to start it once more. Raises NotStoredError, and InUseError where the run
    cannot go on so."""
    with act.as_one() as one:
        run = PostgresRuns(one.database).resume(run_id, act.now, resolved, max_usd)
        how = ", ".join(f"call {path} {'again' if done is None else 'as done'}" for path, done in resolved.items())
        one.record("run.resumed", f"resumed run {run_id} of {run.workflow}{f': {how}' if how else ''}", run_id)
        return run
