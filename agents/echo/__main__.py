"""`python -m agents.echo`: one echo scheduler as a process of its own; prints its address and key as a JSON line."""

import argparse
import asyncio
import json
import signal
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import uvloop

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.echo.given_rows import GivenRowsTaker
from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.scheduler.instance_file import BadInstanceFileError, read_instance_file
from agents.tracing.json_lines import log_json_lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.echo", description=__doc__)
    parser.add_argument("--bind", default="tcp://127.0.0.1:0")
    parser.add_argument("--instance", type=Path, help="file of a node's executor, in place of --bind and --allow")
    parser.add_argument("--key", type=Path, help="key file; made when it does not exist", required=True)
    parser.add_argument("--allow", action="append", default=[], metavar="NAME=PUBLIC_KEY")
    parser.add_argument("--sidecar", help="of this node, by its name: requests may come with rows of encoders")
    for field in fields(EchoSettings):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default, dest=field.name
        )
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    if not arguments.key.exists():
        KeyPair.generate().save(arguments.key)
    keys = KeyPair.load(arguments.key)
    allowed: Mapping[str, str] = {key: name for name, key in (entry.split("=", 1) for entry in arguments.allow)}
    settings = EchoSettings(**{field.name: getattr(arguments, field.name) for field in fields(EchoSettings)})
    bind = arguments.bind
    if arguments.instance is not None:
        given = read_instance_file(arguments.instance)
        bind, allowed = given.bind, given.gateways
        blocks = min(sum(node.kv_blocks for node in stage) for stage in given.layout.stages)
        settings = replace(settings, kv_blocks=blocks, block_tokens=given.layout.block_tokens)
    rows = GivenRowsTaker(arguments.sidecar) if arguments.sidecar else None
    scheduler = EchoScheduler(bind, keys, allowed, settings, rows=rows)
    where = {"endpoint": scheduler.endpoint, "stages": scheduler.endpoint, "public_key": keys.public}
    print(json.dumps(where), flush=True)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()
    scheduler.close()


if __name__ == "__main__":
    log_json_lines()
    try:
        uvloop.run(_serve(_arguments()))
    except (BadKeyError, BadInstanceFileError, OSError, ValueError) as error:
        raise SystemExit(f"echo: {error}") from None
