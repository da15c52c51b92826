"""`python -m control.api.document FILE`: writes the OpenAPI document, from which the console's client is made.

It needs no database: what the API can do does not depend on what is stored.
"""

import sys
from pathlib import Path

import msgspec

from control.api.app import routed

if __name__ == "__main__":
    document = msgspec.json.encode(routed().openapi(), order="sorted")
    target = Path(sys.argv[1])
    if not target.exists() or target.read_bytes() != document:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(document)
