"""A YAML file as plain values that remember their lines."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from control.fleet_file.problem import SpecError, SpecProblem

MAX_BYTES = 1 << 20
MAX_NODES = 50_000
"""Values after aliases are expanded: a small file cannot blow up in memory."""
MAX_DEPTH = 32

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a value in a file, kept for problems that are found once the file has been read."""

    file: str
    line: int
    key: Key

    def problem(self, message: str) -> SpecProblem:
        return SpecProblem(self.file, self.line, message, self.key)


@dataclass(frozen=True, slots=True)
class Document:
    """`value` holds dicts with string keys, lists and scalars only; `lines` maps the path of a value to its line."""

    file: str
    value: Any
    lines: dict[Key, int]

    def line(self, key: Key) -> int:
        """The line of the value at `key`, or of the innermost enclosing value that is in the file."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)

    def position(self, *key: str | int) -> Position:
        return Position(self.file, self.line(key), key)

    def problem(self, key: Key, message: str) -> SpecProblem:
        return self.position(*key).problem(message)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 takes `1e5` for a word; people and YAML 1.2 take it for a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


class _Reader:
    def __init__(self, file: str, loader: _Loader) -> None:
        self.file = file
        self.loader = loader
        self.lines: dict[Key, int] = {}
        self.problems: list[SpecProblem] = []
        self.nodes = 0

    def read(self, node: yaml.Node, key: Key) -> Any:
        line = node.start_mark.line + 1
        self.nodes += 1
        if self.nodes > MAX_NODES or len(key) > MAX_DEPTH:
            raise SpecError(
                [SpecProblem(self.file, line, "too large or too deeply nested once its aliases are expanded")]
            )
        self.lines.setdefault(key, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(child, (*key, i)) for i, child in enumerate(node.value)]
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self.problems.append(SpecProblem(self.file, line, str(getattr(error, "problem", error))))
            return None

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        own: set[str] = set()
        for k, _ in node.value:
            if isinstance(k, yaml.ScalarNode) and k.value in own:
                message = f"key {k.value!r} occurs twice; keep one"
                self.problems.append(SpecProblem(self.file, k.start_mark.line + 1, message))
            own.add(str(k.value))
        self.loader.flatten_mapping(node)
        result: dict[str, Any] = {}
        for k, child in node.value:
            line = k.start_mark.line + 1
            if not isinstance(k, yaml.ScalarNode):
                self.problems.append(SpecProblem(self.file, line, "a key must be a plain word"))
                continue
            self.lines[(*key, k.value)] = line
            result[k.value] = self.read(child, (*key, k.value))
        return result


def parse(text: str, file: str) -> Document:
    """Raises SpecError with the line for text that is not one YAML document of mappings, lists and scalars."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line, what = text.count("\n", 0, error.position) + 1, f"{error.character:#06x}"
        raise SpecError([SpecProblem(file, line, f"holds a character that is no text, {what}")]) from None
    try:
        node = loader.get_single_node()
        if node is None:
            raise SpecError([SpecProblem(file, 0, "is empty; start from one of examples/*.yaml")])
        reader = _Reader(file, loader)
        value = reader.read(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise SpecError([SpecProblem(file, line, f"is not valid YAML: {error.problem or error.context}")]) from None
    except yaml.YAMLError as error:
        raise SpecError([SpecProblem(file, 0, f"is not valid YAML: {str(error).splitlines()[0]}")]) from None
    finally:
        loader.dispose()
    if reader.problems:
        raise SpecError(reader.problems)
    return Document(file, value, reader.lines)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file a user named; raises SpecError when it cannot be read or is larger than `max_bytes`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise SpecError([SpecProblem(str(path), 0, f"cannot be read: {error.strerror or error}")]) from None
    if len(data) > max_bytes:
        raise SpecError([SpecProblem(str(path), 0, f"is larger than {max_bytes // 1024} KiB")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError([SpecProblem(str(path), 0, f"is not UTF-8 text (byte {error.start})")]) from None
