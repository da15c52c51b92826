"""Names that people give: of fleets, projects, webhooks. They stand in URLs, tags and file names as they are."""

import re

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
NAME_HINT = "Up to 63 letters, digits, dots, hyphens and underscores; begins with a letter or digit."

DEFAULT_PROJECT = "default"
"""Of what names no project."""


def check_name(what: str, name: str) -> str:
    """The name; ValueError when it is none for `what`."""
    if not re.fullmatch(NAME_PATTERN.removesuffix("$"), name):
        raise ValueError(f"{name!r} is no name of a {what}. {NAME_HINT}")
    return name
