"""Every operation of the admin API, from its OpenAPI document."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete")
_HEAD = """# Every operation of the admin API

Made from the OpenAPI document, which `medley api` serves at `/api/v1/openapi.json`; [the admin API](../api.md) tells
what all operations have in common: tokens and roles, pages, conflicts, errors, retries.
"""


def operation_reference(document: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    tagged: defaultdict[str, list[tuple[str, str, Mapping[str, Any]]]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                tag = next(iter(methods[method].get("tags", [])), "other")
                tagged[tag].append((method.upper(), path, methods[method]))
    parts = [_HEAD]
    for tag in sorted(tagged):
        parts.append(f"## {tag}\n\n| operation | role | |\n|---|---|---|")
        parts += _rows(sorted(tagged[tag], key=lambda each: (each[1], each[0])))
        parts.append("")
    return "\n".join(parts)


def _rows(operations: list[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    for method, path, operation in operations:
        role = operation.get("x-medley-role", "")
        about = operation.get("description") or operation.get("summary", "")
        line = " ".join(about.split()).replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{method} {path}` | {role} | {line} |"
