"""Every key of the spec file, from the schema that reads it."""

from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """# Every key of the spec file

Made from the schema by which `medley` reads a spec; [the spec file](../spec.md) tells how the parts belong together.
Editors that know JSON Schema complete and check a file with the output of `python -m control.fleet_file.json_schema`.
"""


def spec_reference(schema: Mapping[str, Any]) -> str:
    """The page in Markdown. `schema`: JSON Schema as of pydantic, whose sections are its `$defs`."""
    sections = _reached(schema)
    parts = [_HEAD, "## The file\n", *_table(schema)]
    for name in sections:
        section = schema["$defs"][name]
        about = section.get("description", "")
        parts += [f"## {name} {{#{name.lower()}}}\n", *([about + "\n"] if about else []), *_table(section)]
    return "\n".join(parts)


def _reached(schema: Mapping[str, Any]) -> list[str]:
    """Names of the sections that a file can have, as they are met from its root."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        for name in _references(waiting.pop(0).get("properties", {})):
            if name not in found and "properties" in schema["$defs"][name]:
                found.append(name)
                waiting.append(schema["$defs"][name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _table(section: Mapping[str, Any]) -> Iterator[str]:
    required = section.get("required", [])
    yield "| key | type | default | |\n|---|---|---|---|"
    for key, each in section.get("properties", {}).items():
        default = "required" if key in required else _default(each)
        yield f"| `{key}` | {_type(each)} | {default} | {_line(each.get('description', ''))} |"
    yield ""


def _type(each: Mapping[str, Any]) -> str:
    named = _named(each)
    if named:
        return named
    match each.get("type"):
        case "array":
            return f"list of {_type(each.get('items', {}))}"
        case "object":
            inner = each.get("additionalProperties")
            return f"map of {_type(inner)}" if isinstance(inner, Mapping) else "object"
        case kind:
            return str(kind or "any")


def _named(each: Mapping[str, Any]) -> str:
    """Return what a schema says by name, by value, or by others; empty: it says a type."""
    if "$ref" in each:
        name = each["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name.endswith("Section") else name
    if "const" in each:
        return f"`{each['const']}`"
    if "enum" in each:
        return " or ".join(f"`{value}`" for value in each["enum"])
    return " or ".join(_type(one) for one in each.get("anyOf", ()) if one.get("type") != "null")


def _default(each: Mapping[str, Any]) -> str:
    value = each.get("default")
    return "" if value is None or isinstance(value, dict | list) else f"`{str(value).lower()}`"


def _line(text: str) -> str:
    """As a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
