"""Templates written by hand, or by another system, in a JSON file.

The file is an object with `classes` (as `WorkClass`) and `templates` (as `ListedTemplate`: software, nodes, placement
of any kind, operating points). Every key is checked, because a misspelt one would quietly change a plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from templates_lib.sources.listed_source import ListedSource, ListedTemplate
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.work import WorkClass


class JsonSourceError(ValueError):
    """A template file that cannot be used; the text names the file, the place in it and the nearest valid name."""


@dataclass(frozen=True, slots=True)
class _File:
    classes: tuple[WorkClass, ...]
    templates: tuple[ListedTemplate, ...]


def read_json_source(path: Path) -> ListedSource:
    """The templates of a file, as a `TemplateSource`. Raises JsonSourceError for whatever is not as it should be."""
    try:
        data = path.read_bytes()
        raw = msgspec.json.decode(data)
        content = msgspec.json.decode(data, type=_File)
    except OSError as error:
        raise JsonSourceError(f"{path}: cannot be read ({error.strerror})") from error
    except msgspec.ValidationError as error:
        raise JsonSourceError(f"{path}: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JsonSourceError(f"{path}: is truncated or no JSON: {error}") from error
    problems = list(_unknown_keys("$", raw, msgspec.to_builtins(content)))
    if problems:
        raise JsonSourceError(f"{path}: {'; '.join(problems)}")
    names = [c.id for c in content.classes]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise JsonSourceError(f"{path}: work class {twice[0]!r} is given twice")
    try:
        return ListedSource(content.classes, content.templates)
    except ValueError as error:
        raise JsonSourceError(f"{path}: {error}") from error


def _unknown_keys(where: str, raw: Any, read: Any) -> Iterator[str]:
    """Keys of the file that did not become part of its values."""
    if isinstance(raw, dict) and isinstance(read, dict):
        for key, value in raw.items():
            if key in read:
                yield from _unknown_keys(f"{where}.{key}", value, read[key])
            else:
                yield f"unknown key {key!r} at {where}; {nearest_name(key, read)}"
    elif isinstance(raw, list) and isinstance(read, list | tuple):
        for index, (one, other) in enumerate(zip(raw, read, strict=True)):
            yield from _unknown_keys(f"{where}[{index}]", one, other)
