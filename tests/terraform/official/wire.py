"""Protocol buffers of Terraform's plugin protocol 6, as far as a provider of schemas needs them: numbers of fields are
those of `tfplugin6.proto`."""

import json
from collections.abc import Iterable, Mapping

from tests.terraform.official.bindings import Argument, Block

_NESTING = {"single": 1, "list": 2, "set": 3, "map": 4}


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def part(number: int, value: bytes | str | int | bool) -> bytes:
    """One field. Numbers that are 0, and False, are left out, as everywhere in this protocol."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def parts(raw: bytes) -> dict[int, bytes]:
    """Fields that hold bytes; the last of each number."""
    found, at = {}, 0
    while at < len(raw):
        key, at = _varint(raw, at)
        value, at = _varint(raw, at)
        if key & 7 == 2:
            found[key >> 3] = raw[at : at + value]
            at += value
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def schemas(number: int, named: Mapping[str, Block]) -> bytes:
    """A field that maps names to schemas."""
    return b"".join(part(number, part(1, name) + part(2, schema(block))) for name, block in named.items())


def schema(block: Block) -> bytes:
    return part(2, _block(block))


def _block(block: Block) -> bytes:
    nested = b"".join(
        part(3, part(1, name) + part(2, _block(inside)) + part(3, _NESTING[nesting]))
        for name, (nesting, inside) in block.blocks.items()
    )
    return _arguments(2, block.arguments.items()) + nested


def _arguments(number: int, arguments: Iterable[tuple[str, Argument]]) -> bytes:
    return b"".join(part(number, _argument(name, argument)) for name, argument in arguments)


def _argument(name: str, argument: Argument) -> bytes:
    if argument.nested is None:
        held = part(2, json.dumps(argument.type))
    else:
        members = dict(argument.nested.arguments)
        for inner, (nesting, block) in argument.nested.blocks.items():
            members[inner] = Argument(None, False, True, False, block, nesting)
        held = part(10, _arguments(1, members.items()) + part(3, _NESTING[argument.nesting]))
    is_write_only = name.endswith("_wo")
    flags = (4, argument.required), (5, argument.optional), (6, argument.computed and not argument.required)
    return part(1, name) + held + b"".join(part(n, flag) for n, flag in flags) + part(11, is_write_only)
