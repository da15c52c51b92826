"""Values that must not be seen: not in a log, a traceback, a row or a list of processes."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret text. Printing it shows nothing; who needs it asks for `reveal()`."""

    _text: str = field(repr=False)

    def __str__(self) -> str:
        return "***"

    def reveal(self) -> str:
        return self._text

    def digest(self) -> bytes:
        """SHA-256. Slow hashing is for passwords that people choose; these have 256 random bits to guess."""
        return hashlib.sha256(self._text.encode()).digest()

    def has(self, digest: bytes) -> bool:
        """Tell whether it is the secret of that digest, in time that does not depend on how much of it is right."""
        return hmac.compare_digest(self.digest(), digest)


def new_secret() -> Secret:
    """256 random bits, letters and digits."""
    return Secret(secrets.token_hex(_BYTES))
