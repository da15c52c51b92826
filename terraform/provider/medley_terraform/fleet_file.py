"""The JSON schema of a fleet's spec, with the enumerations that other resources use.

The control plane writes `fleet_file.json` from its own checks (`control/fleet_file/json_schema.py`): the provider runs
in an environment without it.
"""

import json
from pathlib import Path
from typing import Any

from medley_terraform.types import Limits

Part = dict[str, Any]
"""A JSON schema, or one within another."""
SPEC: Part = json.loads(Path(__file__).with_suffix(".json").read_text())


def resolved(part: Part) -> Part:
    """Return what the part says and refers to, without its alternative null. Its own description comes first."""
    of_value = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if of_value:
        return resolved(of_value[0]) | part
    if "$ref" in part:
        referred: Part = SPEC["$defs"][part["$ref"].rpartition("/")[2]]
        return referred | part
    return part


def limits_of(part: Part) -> Limits:
    """Return the bounds of a part that is resolved."""
    return Limits(
        least=part.get("minimum"),
        above=part.get("exclusiveMinimum"),
        most=part.get("maximum"),
        below=part.get("exclusiveMaximum"),
        whole=part["type"] == "integer",
        one_of=tuple(part.get("enum", ())),
        pattern=part.get("pattern", ""),
        longest=part.get("maxLength"),
    )


def limits_of_enumeration(name: str) -> Limits:
    """Return the choices of an enumeration, by its name in the control plane. Raises KeyError."""
    return limits_of(SPEC["$defs"][name])


NAME_LIMITS = limits_of(SPEC["properties"]["name"])
