"""Idempotency keys: a caller that has stored an answer has it forgotten here."""

from typing import Annotated

from fastapi import Path

from control.api.caller import CallerOf
from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.db.idempotent_answers import PostgresAnswers

router = api_router("idempotency-keys")
PathKey = Annotated[str, Path(pattern=r"^[A-Za-z0-9._~-]{1,200}$")]


@router.delete("/idempotency-keys/{key}", status_code=204, responses=problems())
def forget_answer(key: PathKey, caller: CallerOf, services: ServicesOf) -> None:
    """Forget the answer that this caller got under the key: its next request under it is new. Again: no harm."""
    PostgresAnswers(services.database).forget_answer(caller.token_id, key)
