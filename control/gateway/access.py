"""Who may use the API: holders of Medley's tokens, known by their hashes."""

from collections.abc import Mapping

from control.access.api_token import read
from control.access.pepper import Peppers
from control.access.secret import Secret
from control.gateway.api_error import unauthorized
from control.gateway.published import AccessKey


def check_access(header: bytes, access: Mapping[str, AccessKey] | None, peppers: Peppers) -> AccessKey | None:
    """Find whose key it is; None where the gateway is open. `header`: of `Authorization`, empty when there is none.

    Raises ApiError 401."""
    if access is None:
        return None
    scheme, _, key = header.partition(b" ")
    if scheme.lower() != b"bearer" or not key:
        raise unauthorized("You did not provide an API key: send it as `Authorization: Bearer KEY`")
    parts = read(Secret(key.strip().decode("ascii", "replace")))
    if parts is None:
        raise unauthorized("Incorrect API key provided")
    token_id, secret = parts
    entry = access.get(token_id)
    if entry is None or not peppers.fits(secret, entry.digest):
        raise unauthorized("Incorrect API key provided")
    return entry
