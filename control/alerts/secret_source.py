"""The place of a webhook's secret: the database names it, and never holds the secret."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from control.access.secret import Secret

_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]{0,127})")
_FILE = re.compile(r"file:(/[^\0\n]{1,1023})")
LEAST_BYTES = 16
_MOST_BYTES = 4096


class NoSecretError(Exception):
    """The place names no secret that could be used; the message says why, and never what is there."""


def check_source(text: str) -> str:
    """The text; ValueError when it is no place."""
    if not (_ENV.fullmatch(text) or _FILE.fullmatch(text)):
        raise ValueError("a secret is named by where it is: env:NAME, or file:/PATH with an absolute path")
    return text


def read_secret(source: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Raises NoSecretError."""
    if (variable := _ENV.fullmatch(source)) is not None:
        value = environ.get(variable[1], "").strip()
    elif (path := _FILE.fullmatch(source)) is not None:
        try:
            with Path(path[1]).open("rb") as file:
                value = file.read(_MOST_BYTES).decode(errors="replace").strip()
        except OSError as error:
            raise NoSecretError(f"{source} cannot be read: {error.strerror}") from None
    else:
        raise NoSecretError(f"{source!r} is no place of a secret")
    if len(value.encode()) < LEAST_BYTES:
        raise NoSecretError(f"{source} holds fewer than {LEAST_BYTES} bytes: no secret of any use")
    return Secret(value)
