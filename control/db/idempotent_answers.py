"""Answers that are given again to whoever repeats a request under the same Idempotency-Key.

They may hold a secret, such as a new token, so a row holds neither key nor answer as it was sent: the caller's own
secret, of which the database has the hash only, encrypts them.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from control.access.secret import Secret
from control.db.api_tables import idempotent_answer
from control.db.database import Database

_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """One request under one key."""

    caller: str
    """Id of the token."""
    secret: Secret
    """Credential with which the caller proved its identity."""
    key: str
    request: bytes
    """SHA-256 of method, path, query and body."""

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.key.encode()).digest()

    @property
    def cipher(self) -> ChaCha20Poly1305:
        # The secret has 256 random bits, so that one hash makes a key of it; the other parts keep keys apart.
        return ChaCha20Poly1305(hashlib.sha256(b"medley answer\0" + self.secret.digest() + self.digest).digest())


class AnswerOnItsWay(Exception):  # noqa: N818 - no failure: the first request under the key is being worked on
    """Ask again in a moment."""


class OtherRequestError(ValueError):
    """The key was used for another request: choose another key."""


@dataclass(frozen=True, slots=True)
class PostgresAnswers:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def begin(self, asked: IdempotentRequest, now: datetime, in_flight: timedelta) -> bytes | None:
        """The answer that was given, None when this is the first request under its key: then work, and `keep` or
        `forget`.

        Raises AnswerOnItsWay, OtherRequestError. A first request that began more than `in_flight` ago died with its
        process: this one takes its place.
        """
        row = {"caller": asked.caller, "key": asked.digest, "request": asked.request, "created_at": now}
        table, mine = idempotent_answer, self._mine(asked)
        with self.database.transaction() as connection:
            new = insert(table).values(row).on_conflict_do_nothing().returning(table.c.caller)
            if connection.execute(new).scalar_one_or_none() is not None:  # the first under this key
                return None
            found = connection.execute(select(table).where(*mine).with_for_update()).one_or_none()
            if found is None or found.request != asked.request:
                if found is None:
                    raise AnswerOnItsWay  # forgotten this moment
                raise OtherRequestError("this Idempotency-Key was used for another request: choose another key")
            if found.answer is None:
                if found.created_at + in_flight > now:
                    raise AnswerOnItsWay
                connection.execute(update(table).where(*mine).values(created_at=now))
                return None
        sealed: bytes = found.answer
        try:
            return asked.cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], asked.request)
        except InvalidTag:
            raise OtherRequestError(
                "this Idempotency-Key was used with another credential: choose another key"
            ) from None

    def keep(self, asked: IdempotentRequest, answer: bytes) -> None:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + asked.cipher.encrypt(nonce, answer, asked.request)
        self.database.write(update(idempotent_answer).where(*self._mine(asked)).values(answer=sealed))

    def forget(self, asked: IdempotentRequest) -> None:
        """The request failed and may be tried again under its key."""
        unanswered = idempotent_answer.c.answer.is_(None)
        self.database.write(delete(idempotent_answer).where(*self._mine(asked), unanswered))

    def forget_answer(self, caller: str, key: str) -> None:
        """The next request of `caller` under `key` is a new one. A first request that is under way stays."""
        table, digest = idempotent_answer, hashlib.sha256(key.encode()).digest()
        mine = (table.c.caller == caller, table.c.key == digest, table.c.answer.is_not(None))
        self.database.write(delete(table).where(*mine))

    def drop_older(self, than: datetime) -> None:
        self.database.write(delete(idempotent_answer).where(idempotent_answer.c.created_at < than))

    @staticmethod
    def _mine(asked: IdempotentRequest) -> tuple[ColumnElement[bool], ...]:
        return idempotent_answer.c.caller == asked.caller, idempotent_answer.c.key == asked.digest
