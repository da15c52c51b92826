"""A fleet's spec: attributes of the resource, and the document that the API takes. One says what the other does."""

from collections.abc import Callable
from typing import Any

from medley_terraform.client import Json
from medley_terraform.fleet.attributes import SWITCHES, fleet_attributes
from medley_terraform.report import Element, Path
from medley_terraform.schema import State
from medley_terraform.types import Collection, Many, Nested, Nesting, Scalar, Type

SPEC = Nested(Nesting.SINGLE, fleet_attributes())
PARTS = tuple(each.name for each in SPEC.attributes)


def document_of(state: State) -> Json:
    """Return the document of a state whose values are all known."""
    parts = {name: _said(SPEC.named(name).type, state[name], name) for name in PARTS if state[name] is not None}
    models = [{"name": name, **parts["models"][name]} for name in served(state)]
    return {"apiVersion": "medley/v1", "kind": "Fleet", "name": state["name"], **parts, "models": models}


def served(state: State) -> list[str]:
    """Return the names of the models, in the order in which the document has them."""
    return sorted(state["models"])


def state_of(document: Json) -> tuple[State, list[str]]:
    """Return the attributes, and the paths of what the document says beyond them."""
    beyond: list[str] = [key for key in document if key not in ("apiVersion", "kind", "name", *PARTS)]
    models = {
        str(each.get("name") or each["model"]): {key: each[key] for key in each if key != "name"}
        for each in document.get("models") or ()
    }
    given = {**document, "models": models}
    return {name: _read(SPEC.named(name).type, given.get(name), name, beyond) for name in PARTS}, beyond


def path_of(state: State) -> Callable[[str], Path]:
    """Return what finds the attribute of a JSON pointer into the body of a request that has the document as `spec`."""

    def of(pointer: str) -> Path:
        keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
        if not keys or keys[0] != "spec":
            return (keys[0],) if keys and keys[0] in ("project", "mode") else ()
        if keys[1:2] == ["models"] and len(keys) > 2:
            keys[2] = served(state)[int(keys[2])]
        path: Path = ()
        kind: Type = SPEC
        for key in keys[1:]:
            match kind:
                case Nested(Nesting.SINGLE) if any(each.name == key for each in kind.attributes):
                    path, kind = (*path, key), kind.named(key).type
                case Nested(Nesting.MAP | Nesting.LIST as nesting):
                    element = Element(key if nesting is Nesting.MAP else int(key))
                    path, kind = (*path, element), kind.one
                case _:  # a set has no places; a key that the resource has of its own is an attribute
                    return (key,) if not path and key == "name" else path
        return path

    return of


def _said(kind: Type, value: Any, name: str) -> Any:
    """Return the part of the document that says `value`, without what was left out."""
    match kind:
        case Nested(Nesting.SINGLE):
            said = {
                each.name: _said(each.type, value[each.name], each.name)
                for each in kind.attributes
                if value[each.name] is not None
            }
            switch = SWITCHES.get(name)
            if switch is not None and said.pop(switch.flag, None) is switch.off:
                said[switch.key] = None
            return said
        case Nested(Nesting.LIST):
            return [_said(kind.one, each, "") for each in value]
        case Nested(Nesting.MAP):
            return {key: _said(kind.one, each, "") for key, each in value.items()}
        case Many(Collection.SET):
            return sorted(value)
        case _:
            return value


def _read(kind: Type, value: Any, place: str, beyond: list[str]) -> Any:
    if value is None:
        return None
    match kind:
        case Nested(Nesting.SINGLE):
            return _read_section(kind, {"metered": True} if value == "metered" else value, place, beyond)
        case Nested(Nesting.LIST):
            return [_read(kind.one, each, f"{place}[{number}]", beyond) for number, each in enumerate(value)]
        case Nested(Nesting.MAP):
            return {key: _read(kind.one, each, f"{place}.{key}", beyond) for key, each in value.items()}
        case Scalar.STRING:
            return str(value)
        case _:
            return value


def _read_section(kind: Nested, value: Any, place: str, beyond: list[str]) -> Any:
    known = {each.name for each in kind.attributes}
    beyond += [f"{place}.{key}" for key, each in value.items() if key not in known and each not in (None, [], {})]
    read = {
        each.name: _read(each.type, value.get(each.name), f"{place}.{each.name}", beyond) for each in kind.attributes
    }
    switch = SWITCHES.get(place.rpartition(".")[2])
    if switch is not None and switch.key in value and value[switch.key] is None:
        read[switch.flag] = switch.off
    return read
