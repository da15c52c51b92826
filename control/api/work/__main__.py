"""A worker: takes up operations one after another, and ends after a minute without any."""

import argparse
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from control.api.failures import api_error
from control.api.json_log import log_json
from control.api.trace import current_trace
from control.api.work.jobs import JOBS, Job
from control.api.work.lease import LEASE, Lease, block_end
from control.db.database import Database, open_database
from control.db.errors import DatabaseError, StaleVersionError
from control.db.location import home_directory
from control.db.operations import Operation, PostgresOperations
from control.db.shared_clock import shared_clock

_log = logging.getLogger("medley.api.work")
_IDLE_S = 60.0
_LOOK_S = 0.25


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-s", type=float, required=True)
    parser.add_argument("--parent", type=int, required=True)
    arguments = parser.parse_args()
    block_end()
    log_json()
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    with open_database() as database:
        operations, now = PostgresOperations(database), shared_clock(database)
        last_s = time.monotonic()
        while time.monotonic() - last_s < _IDLE_S and os.getppid() == arguments.parent:
            operation = operations.claim(holder, LEASE, now())
            if operation is None:
                if signal.sigtimedwait({signal.SIGTERM}, _LOOK_S) is not None:
                    return
                continue
            current_trace.set(operation.trace)
            with Lease(operations, operation.id, holder, arguments.limit_s, arguments.parent, now) as lease:
                _work(database, operations, operation, holder, lease, now)
            last_s = time.monotonic()


def _work(
    database: Database,
    operations: PostgresOperations,
    operation: Operation,
    holder: str,
    lease: Lease,
    now: Callable[[], datetime],
) -> None:
    def say(text: str) -> None:
        lease.progress = text

    job = Job(operation, database, home_directory(os.environ), now, say)
    extra = {"operation": operation.id}
    _log.info("%s begins", operation.kind, extra=extra)
    try:
        try:
            result = JOBS[operation.kind](job)
        except Exception as error:
            refusal = api_error(error)
            _log.log(
                logging.ERROR if refusal.status == 500 else logging.INFO, "%s failed: %s", operation.kind, error,
                exc_info=refusal.status == 500, extra=extra,
            )  # fmt: skip
            problem: dict[str, Any] = {"name": refusal.name, "detail": refusal.detail, "facts": refusal.facts}
            problem["errors"] = [each.model_dump() for each in refusal.errors]
            operations.fail(operation.id, holder, problem, now())
            return  # a refusal is an outcome: the worker goes on
        operations.succeed(operation.id, holder, result, now())
        _log.info("%s is done", operation.kind, extra=extra)
    except StaleVersionError as error:
        _log.warning("%s", error, extra=extra)
    except DatabaseError as error:
        _log.error("its outcome cannot be written, it will be done again: %s", error, extra=extra)


if __name__ == "__main__":
    main()
