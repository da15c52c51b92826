"""Schemas of the official providers, read out of the bindings that CDK for Terraform generates from them.

A wheel `cdktf-cdktf-provider-NAME` carries, for each resource, a module of JavaScript with its TypeScript source in the
source map. That says of every argument what it is called, of what type it is, and whether it is an argument, a block,
or only told. The standard library alone is used: the wheel is never installed.
"""

import base64
import json
import re
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_MAP = "sourceMappingURL=data:application/json;base64,"
_CLASS = re.compile(r"^export class (\w+) extends ([\w.]+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"^  // (\w+) - computed: (\w+), optional: (\w+), required: (\w+)$", re.MULTILINE)
_NESTED = re.compile(r'= new (\w+?)(List|OutputReference|Map|MapList)\(this, "\w+"(?:, (true|false))?\)')
_READ = re.compile(r"this\.(?:interpolationForAttribute|get(\w*?)Attribute)\('")
_SHAPED = re.compile(r"^ +(\w+): \{\s+value: [^\n]*\n\s+isBlock: (\w+),\n\s+type: \"(\w+)\",", re.MULTILINE)
_INPUTS = re.compile(r"^export function (\w+)ToHclTerraform\(.*?\{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_TYPE = re.compile(r'tfResourceType = "(\w+)"')

_PRIMITIVES = {
    "String": "string", "Number": "number", "Boolean": "bool", "List": ["list", "string"],
    "StringMap": ["map", "string"], "NumberList": ["list", "number"], "NumberMap": ["map", "number"],
    "BooleanMap": ["map", "bool"], "AnyMap": ["map", "string"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """An attribute. `type` is Terraform's JSON of it; None where it holds objects of `nested`."""

    type: object
    required: bool
    optional: bool
    computed: bool
    nested: "Block | None" = None
    nesting: str = "single"

    @property
    def is_told_only(self) -> bool:
        return self.computed and not self.optional


@dataclass(frozen=True, slots=True)
class Block:
    arguments: dict[str, Argument] = field(default_factory=dict)
    blocks: dict[str, tuple[str, "Block"]] = field(default_factory=dict)
    """Name → how it is nested (list, set, single), and what is in it."""


class Bindings:
    """One provider's wheel, opened."""

    def __init__(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as opened:
            (name,) = (name for name in opened.namelist() if name.endswith(".jsii.tgz"))
            self._archive = tarfile.open(fileobj=opened.open(name), mode="r:gz")  # noqa: SIM115 - lives as long as this
            self._sources = _sources(self._archive)

    def blocks(self, kinds: Iterable[str]) -> dict[str, Block]:
        """`kinds`: folders of the package, such as `db-instance`, `data-aws-region`, `provider`. Those that are not
        there are left out: Terraform then says that the provider has no such type."""
        return {kind: _block_of(self._sources[kind]) for kind in kinds if kind in self._sources}


def _sources(archive: tarfile.TarFile) -> dict[str, str]:
    """Folder → its module, as JavaScript with its map."""
    found = {}
    for member in archive:
        parts = member.name.split("/")
        if len(parts) == 4 and parts[1] == "lib" and parts[3] == "index.js":
            found[parts[2]] = archive.extractfile(member).read().decode()  # type: ignore[union-attr]
    return found


def _block_of(module: str) -> Block:
    text = json.loads(base64.b64decode(module[module.rindex(_MAP) + len(_MAP) :].strip()))["sourcesContent"][0]
    classes = {name: (base, body) for name, base, body in _CLASS.findall(text)}
    shapes = {name.lower(): _shapes(body) for name, body in _INPUTS.findall(text)}
    top = next(body for base, body in classes.values() if base.startswith("cdktf.Terraform"))
    return _read(top, _shapes(top), classes, shapes)


def _shapes(text: str) -> dict[str, tuple[bool, str]]:
    """Argument → (whether it is a block, how it is nested)."""
    return {name: (is_block == "true", kind) for name, is_block, kind in _SHAPED.findall(text)}


def _read(
    body: str,
    own: dict[str, tuple[bool, str]],
    classes: dict[str, tuple[str, str]],
    shapes: dict[str, dict[str, tuple[bool, str]]],
) -> Block:
    made = Block()
    marks = list(_MEMBER.finditer(body))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        name, computed, optional, required = mark[1], *(mark[n] == "true" for n in (2, 3, 4))
        member = body[mark.end() : following.start() if following else len(body)]
        nested = _NESTED.search(member)
        if nested is None or f"{nested[1]}OutputReference" not in classes:
            made.arguments[name] = Argument(_type(member, own.get(name)), required, optional, computed)
            continue
        inside = _read(classes[f"{nested[1]}OutputReference"][1], shapes.get(nested[1].lower(), {}), classes, shapes)
        is_block, kind = own.get(name, (False, ""))
        nesting = {"struct": "single"}.get(kind, kind) or ("set" if nested[3] == "true" else "list")
        if is_block:
            made.blocks[name] = nesting, inside
        else:
            made.arguments[name] = Argument(None, required, optional, computed, inside, nesting)
    return made


def _type(member: str, shape: tuple[bool, str] | None) -> object:
    read = _READ.search(member)
    named = _PRIMITIVES.get((read[1] or "") if read else "")
    if named is None:
        held = re.search(r"new cdktf\.(\w+)\(this", member)
        named = _PRIMITIVES.get(held[1].replace("AnyMap", "StringMap") if held else "", "dynamic")
    if isinstance(named, list) and named[0] == "list" and ("tolist(" in member or (shape and shape[1] == "set")):
        return ["set", named[1]]
    return named
