"""What the KV caches of members look like, as their checkpoints say, read by a process of its own: it takes torch,
which the owner of a pool would have in memory for as long as its unit lives."""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from agents.end_with_parent import end_with_parent
from agents.kv_pool.member_shape import MemberShape
from agents.messages.to_node import PoolMember
from agents.weights.errors import WeightsError
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.hub_weights import find_checkpoint, is_on_hub
from templates_lib.models.weights_place import NoWeightsError, weights_path

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of a number of the KV cache, by data type."""
_EXPECTED = (NoWeightsError, WeightsError, UnsupportedModelError, OSError, ValueError)


class UnreadableShapeError(ValueError):
    """A member's checkpoint cannot be read, or its KV cache not be shared."""


def stored_shapes(members: Sequence[PoolMember]) -> list[MemberShape]:
    """Return the shapes of members' KV caches. For a process of one thread, which it forks. Raises
    UnreadableShapeError."""
    read, written = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.close(read)
        _tell(members, written, parent)
    os.close(written)
    with os.fdopen(read, "rb") as said:
        told = said.read()
    _, status = os.waitpid(child, 0)
    if not told:
        raise UnreadableShapeError(f"who reads the shapes of KV caches ended with status {status} and no word")
    found = msgspec.json.decode(told, type=list[MemberShape] | str)
    if isinstance(found, str):
        raise UnreadableShapeError(found)
    return found


def _tell(members: Sequence[PoolMember], written: int, parent: int) -> NoReturn:
    """Write the shapes, or why there are none, and end this process, whatever happens."""
    try:
        end_with_parent()
        if os.getppid() == parent:
            with os.fdopen(written, "wb") as answer:
                answer.write(msgspec.json.encode(_read(members)))
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(0)


def _read(members: Sequence[PoolMember]) -> list[MemberShape] | str:
    try:
        return [_shape(number, member) for number, member in enumerate(members)]
    except _EXPECTED as error:
        return str(error)


def _shape(number: int, member: PoolMember) -> MemberShape:
    """Raises what cannot be read or shared (`_EXPECTED`)."""
    if member.dtype not in _BYTES:
        raise ValueError(f"member {number} has a KV cache in {member.dtype}; a pool holds {', '.join(_BYTES)}")
    from agents.engines.torch_engine.decoder_config import decoder_config

    config = decoder_config(_config(member.weights))
    row = config.head_dim * _BYTES[member.dtype]
    return MemberShape(f"member {number} ({member.weights})", row, 2 * config.kv_heads * config.layers)


def _config(weights: str) -> dict[str, Any]:
    from agents.engines.torch_engine.decoder_part import decoder_part
    from agents.weights.source import open_checkpoint

    if is_on_hub(weights):
        return dict(json.loads(find_checkpoint(weights).config.read_bytes()))
    return decoder_part(open_checkpoint(weights_path(weights))).config
