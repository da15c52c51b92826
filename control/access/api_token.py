"""An API token: `medley_<id>_<secret>`. The id finds its row, the secret proves it; a scanner knows the prefix."""

import re
from dataclasses import dataclass
from datetime import datetime

from control.access.role import Role
from control.access.secret import Secret
from control.access.use_limits import UseLimits
from control.given_name import DEFAULT_PROJECT
from policies.priority import Priority

_FORM = re.compile(r"medley_(?P<id>[0-9a-f]{12})_(?P<secret>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token after it was handed out: all but its secret."""

    id: str
    name: str
    """Holder of the token, a person or a program, for people."""
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    project: str = DEFAULT_PROJECT
    """Whose use of models it is."""
    requests_per_minute: int | None = None
    """Requests that a gateway takes from its holder; None: no limit."""
    tokens_per_minute: int | None = None
    """Tokens of prompts and answers together that a gateway takes from its holder; None: no limit."""
    priority: Priority = Priority.STANDARD
    """Of its holder's requests, at the most, and where they ask for none."""
    concurrent_requests: int | None = None
    """Requests of its holder that may be open at a gateway at the same time; None: no limit."""

    @property
    def limits(self) -> UseLimits:
        return UseLimits(self.requests_per_minute, self.tokens_per_minute, self.concurrent_requests)

    def works(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def written(token_id: str, secret: Secret) -> Secret:
    """The token as its holder sends it."""
    return Secret(f"medley_{token_id}_{secret.reveal()}")


def read(token: Secret) -> tuple[str, Secret] | None:
    """Id and secret; None for what is no token."""
    match = _FORM.fullmatch(token.reveal())
    return None if match is None else (match["id"], Secret(match["secret"]))
