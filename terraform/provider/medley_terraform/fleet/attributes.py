"""The attributes of a fleet's spec, made of the spec's JSON schema.

They differ from the keys of a spec file in three ways. Models are a map by name, not a list. What names a file of the
machine that reads the spec is left out. Where null in a spec stands for `none` there is a flag, since null in a
configuration stands for what was left out.
"""

from dataclasses import dataclass
from typing import Any

from medley_terraform.fleet_file import SPEC, Part, limits_of, resolved
from medley_terraform.types import Attribute, Collection, Limits, Many, Nested, Nesting, Scalar, Type

_OF_THE_RESOURCE = ("apiVersion", "kind", "name")
_MODELS, _MODEL_NAME = "models", "models.name"
_REQUIRED = ("models", "clouds")  # a spec file may name apps alone, and files of offers
_SCALARS = {"string": Scalar.STRING, "boolean": Scalar.BOOL, "number": Scalar.NUMBER, "integer": Scalar.NUMBER}


@dataclass(frozen=True, slots=True)
class Switch:
    """A flag that says what null says in a spec."""

    flag: str
    off: bool
    """The flag's value that stands for null."""
    key: str
    description: str


SWITCHES = {
    "forecast": Switch("head_room", False, "quantile", "`false`: none, and no `quantile`. Default: `true`."),
    "reconcile": Switch(
        "all_moves",
        True,
        "payback_minutes",
        "`true`: all moves of the cheapest plan are made, and no `payback_minutes`. Default: `false`.",
    ),
}
"""Switches by the name of their section. A key of a spec that may be null, though its default is not, has one."""


def fleet_attributes() -> tuple[Attribute, ...]:
    parts = {name: part for name, part in SPEC["properties"].items() if name not in _OF_THE_RESOURCE}
    return _attributes({**SPEC, "properties": parts}, "")


def _attributes(section: Part, path: str) -> tuple[Attribute, ...]:
    found = []
    for name, given in section["properties"].items():
        part, place = resolved(given), f"{path}.{name}".lstrip(".")
        if place == _MODEL_NAME or _names_files(part):
            continue
        required = name in section.get("required", ()) or place in _REQUIRED
        kind, limits = _type(part, place)
        text = _description(part, limits)
        found.append(Attribute(name, text, kind, required=required, limits=limits))
        if "anyOf" in given and given["default"] is not None:
            switch = SWITCHES[path.rpartition(".")[2]]
            found.append(Attribute(switch.flag, switch.description, Scalar.BOOL))
    return tuple(found)


def _names_files(part: Part) -> bool:
    return "path" in (part.get("format"), resolved(part.get("items", {})).get("format"))


def _type(part: Part, place: str) -> tuple[Type, Limits]:
    """Return the type, and the bounds of its values."""
    match part:
        case {"properties": _}:
            return Nested(Nesting.SINGLE, _attributes(part, place)), Limits()
        case {"type": "object"}:
            return Nested(Nesting.MAP, _attributes(resolved(part["additionalProperties"]), place)), Limits()
        case {"type": "array"}:
            item = resolved(part["items"])
            if "properties" in item:
                return Nested(Nesting.MAP if place == _MODELS else Nesting.LIST, _attributes(item, place)), Limits()
            return Many(Collection.SET, _SCALARS[item["type"]]), limits_of(item)
        case _:
            return _SCALARS[part["type"]], limits_of(part)


def _description(part: Part, limits: Limits) -> str:
    sentences = [" ".join(part.get("description", "").split())]
    if any(f"`{choice}`" not in sentences[0] for choice in limits.one_of):
        sentences.append(f"One of {', '.join(f'`{choice}`' for choice in limits.one_of)}.")
    if shown := _shown(part.get("default")):
        sentences.append(f"Default: {shown}.")
    return " ".join(sentences).strip()


def _shown(default: Any) -> str:
    """Return a default as people write it; empty for none, and for a section, whose attributes have their own."""
    match default:
        case None | "" | dict() | []:
            return ""
        case list():
            return ", ".join(f"`{each}`" for each in default)
        case bool():
            return f"`{str(default).lower()}`"
        case float() if default.is_integer():
            return f"{default:.0f}"
        case int() | float():
            return str(default)
        case _:
            return f"`{default}`"
