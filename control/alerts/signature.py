"""How a receiver knows that a delivery is ours and not an old one: HMAC-SHA-256 over its time and its body."""

import hashlib
import hmac
from datetime import datetime

from control.access.secret import Secret

HEADER = "Medley-Signature"


def signature(secret: Secret, body: bytes, now: datetime) -> str:
    """`t=1732190400,v1=9f…`: seconds since 1970, and the digest of `t`, a dot and the body, in hexadecimal."""
    at = str(int(now.timestamp()))
    digest = hmac.new(secret.reveal().encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
