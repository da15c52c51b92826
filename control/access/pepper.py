"""Peppers: secrets of an installation that are hashed with those of tokens, and are in no database.

Whoever reads the database, or a routing table, can then not even tell whether a token that he has found somewhere is
one of this installation. A file (`MEDLEY_PEPPER_FILE`) has them, one a line: new tokens are hashed with the first, the
others are for tokens that were made while they were it.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from control.access.secret import Secret

_log = logging.getLogger(__name__)

VARIABLE = "MEDLEY_PEPPER_FILE"
LEAST = 32
"""Characters of a pepper."""


class PepperError(ValueError):
    """The file cannot be used; the message names it, says what is wrong, and shows nothing of it."""


@dataclass(frozen=True, slots=True)
class TokenDigest:
    """All that is kept of a token's secret part."""

    digest: bytes
    """SHA-256, or HMAC-SHA-256 with the pepper as its key."""
    pepper: str = ""
    """Id of the pepper; empty: none."""


@dataclass(frozen=True, slots=True)
class Peppers:
    secrets: tuple[Secret, ...] = ()

    def hashed(self, secret: Secret) -> TokenDigest:
        """Hash a new token's secret part, with the first pepper where there is one."""
        if not self.secrets:
            return TokenDigest(secret.digest())
        return TokenDigest(_with(self.secrets[0], secret), _id_of(self.secrets[0]))

    def fits(self, secret: Secret, stored: TokenDigest) -> bool:
        """Tell whether it is the secret of that digest; False, too, where the pepper is none of these. It takes a time
        that does not depend on how much of the secret is right."""
        if not stored.pepper:
            return secret.has(stored.digest)
        pepper = next((each for each in self.secrets if _id_of(each) == stored.pepper), Secret(""))
        return hmac.compare_digest(_with(pepper, secret), stored.digest) and bool(pepper.reveal())


def peppers_of(environment: Mapping[str, str]) -> Peppers:
    """Read the file that the environment names, again whenever it was replaced; none where it names none. Raises
    PepperError."""
    path = environment.get(VARIABLE)
    if not path:
        return Peppers()
    try:
        stat = Path(path).stat()
        return _read(path, stat.st_mtime_ns, stat.st_ino)
    except OSError as error:
        raise PepperError(f"{VARIABLE}: {path}: {error.strerror}") from None


_last_good: dict[str, Peppers] = {}
"""By path, what this process has read last."""
_complaints: dict[str, str] = {}
"""By path, what is wrong with it now, so that it is logged once and not for every request."""


def last_good_peppers(environment: Mapping[str, str]) -> Peppers:
    """Those that tokens are checked with: as `peppers_of`, but the ones before while the file cannot be used, so that
    a slip in it locks nobody out. Raises PepperError where this process has read none before."""
    path = environment.get(VARIABLE, "")
    try:
        _last_good[path] = peppers_of(environment)
        _complaints.pop(path, None)
    except PepperError as error:
        if path not in _last_good:
            raise
        if _complaints.get(path) != str(error):
            _log.error("%s; tokens are checked with the peppers before", error)
        _complaints[path] = str(error)
    return _last_good[path]


@lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int, _inode: int) -> Peppers:
    try:
        lines = Path(path).read_text(encoding="ascii").split()
    except UnicodeDecodeError:
        raise PepperError(f"{VARIABLE}: {path}: a pepper has ASCII letters and digits only") from None
    if not lines or any(len(line) < LEAST for line in lines):
        wanted = "such as `openssl rand -hex 32` prints"
        raise PepperError(f"{VARIABLE}: {path}: each line must be a pepper of {LEAST} characters or more, {wanted}")
    return Peppers(tuple(Secret(line) for line in lines))


def _with(pepper: Secret, secret: Secret) -> bytes:
    return hmac.digest(pepper.reveal().encode(), secret.reveal().encode(), hashlib.sha256)


@lru_cache(maxsize=64)
def _id_of(pepper: Secret) -> str:
    """Name of a pepper that says nothing of it."""
    return hashlib.sha256(b"medley pepper\0" + pepper.reveal().encode()).hexdigest()[:16]
