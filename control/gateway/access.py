"""Who may use the API: holders of Medley's tokens, known by their hashes."""

from control.access.api_token import read
from control.access.secret import Secret
from control.gateway.api_error import unauthorized
from control.gateway.published import AccessKey


def check_access(header: bytes, access: tuple[AccessKey, ...] | None) -> None:
    """Raises ApiError 401. `header`: of `Authorization`, empty when there is none."""
    if access is None:
        return
    scheme, _, key = header.partition(b" ")
    if scheme.lower() != b"bearer" or not key:
        raise unauthorized("You did not provide an API key: send it as `Authorization: Bearer KEY`")
    parts = read(Secret(key.strip().decode("ascii", "replace")))
    if parts is None:
        raise unauthorized("Incorrect API key provided")
    token_id, secret = parts
    if not any(entry.id == token_id and secret.has(bytes.fromhex(entry.sha256)) for entry in access):
        raise unauthorized("Incorrect API key provided")
