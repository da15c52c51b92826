"""`python -m agents.kv_pool`: the owner of the KV cache that the models of a unit share, as a process of its own. It
also says whose turn it is at the processors. Prints a JSON line once it serves, and ends with its owner."""

import argparse
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agents.end_with_parent import end_with_parent
from agents.kv_pool.block_layout import block_bytes
from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.member_shape import MemberShape
from agents.kv_pool.owner import PoolOwner
from agents.kv_pool.stored_shapes import stored_shapes
from agents.messages.to_node import Pool
from agents.tracing.json_lines import log_json_lines
from agents.unit.core import UnitMemberShares
from agents.unit.running_unit import RunningUnit
from policies.shared_units.block_quotas import BlockDemand

_EXPECTED = (msgspec.MsgspecError, OSError, ValueError)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.kv_pool", description=__doc__)
    parser.add_argument("--pool", type=Path, required=True, help="file: how large it is, and who its members are")
    parser.add_argument("--socket", type=Path, required=True, help="where members find it, in a folder of their own")
    parser.add_argument("--owner", type=int, help="process that started it, with which it ends at once")
    return parser.parse_args()


def _owner(pool: Pool, socket: Path) -> PoolOwner:
    """Raises what cannot be read or shared (`_EXPECTED`)."""
    shapes = stored_shapes(pool.members)
    size = block_bytes({shape.name: shape.row_bytes for shape in shapes})
    blocks, members = pool.bytes // size, []
    for shape, member, least in zip(shapes, pool.members, _least(pool, shapes, size), strict=True):
        demand = BlockDemand(member.requests_per_s, shape.blocks(member.request_tokens, size), least)
        members.append(UnitMemberShares(member.compute, member.compute, demand))
    unit = RunningUnit(members, blocks, time.monotonic())
    return PoolOwner(BlockLedger(unit.grants), blocks, size, socket, unit, shapes)


def _least(pool: Pool, shapes: Sequence[MemberShape], size: int) -> list[int]:
    """Return the blocks of the longest request of each member. Where the pool is short of them, the last one of each is
    left out unless it is full: plans count tokens, and blocks hold up to some hundreds."""
    longest = [member.longest_tokens for member in pool.members]
    least = [shape.blocks(tokens, size) for shape, tokens in zip(shapes, longest, strict=True)]
    if sum(least) * size <= pool.bytes:
        return least
    whole = (max(1, tokens // shape.block_tokens(size)) for shape, tokens in zip(shapes, longest, strict=True))
    return [shape.units * count for shape, count in zip(shapes, whole, strict=True)]


def _main() -> None:
    arguments = _arguments()
    if arguments.owner is not None:
        end_with_parent()
        if os.getppid() != arguments.owner:  # it was gone before
            return
    try:
        owner = _owner(msgspec.json.decode(arguments.pool.read_bytes(), type=Pool), arguments.socket)
    except _EXPECTED as error:
        raise SystemExit(f"kv_pool: {error}") from None
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: owner.stop())
    print(json.dumps({"socket": str(arguments.socket), "pid": os.getpid()}), flush=True)
    # Not on a thread: a fault in it ends the process, and all members know.
    owner.serve()
    owner.close()


if __name__ == "__main__":
    log_json_lines()
    _main()
