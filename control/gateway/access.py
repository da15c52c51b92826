"""Who may use the API: bearer keys, known by their hashes."""

from hashlib import sha256

from control.gateway.api_error import unauthorized
from control.gateway.published import AccessKey


def check_access(header: bytes, access: tuple[AccessKey, ...] | None) -> None:
    """Raises ApiError 401. `header`: of `Authorization`, empty when there is none.

    Hashes are compared, not keys: the time it takes says nothing about a key.
    """
    if access is None:
        return
    scheme, _, key = header.partition(b" ")
    if scheme.lower() != b"bearer" or not key:
        raise unauthorized("You did not provide an API key: send it as `Authorization: Bearer KEY`")
    digest = sha256(key.strip()).hexdigest()
    if all(digest != entry.sha256 for entry in access):
        raise unauthorized("Incorrect API key provided")
