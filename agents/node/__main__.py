"""`python -m agents.node`: the agent of this node as a process; ends when it is told to, or cannot be known."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

import uvloop

from agents.channels.address import Address
from agents.channels.errors import BadKeyError, PeerLostError, RefusedError
from agents.channels.keys import KeyPair
from agents.messages.to_registry import REGISTERED
from agents.node.agent import NodeAgent
from agents.node.metadata import ADDRESS
from agents.node.published import published_ports
from agents.node.settings import NodeSettings
from agents.registration import register
from agents.tracing.json_lines import log_json_lines
from templates_lib.values.engines import engine_pythons

_log = logging.getLogger(__name__)
_TRY_S = 15.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="agents.node",
        description=f"{__doc__} Environment: MEDLEY_NODE, its name; MEDLEY_BOOTSTRAP_TOKEN, which registers its key "
        f"once; MEDLEY_NODE_THREADS and MEDLEY_NODE_PACE, its share of the machine; MEDLEY_VLLM_PYTHON, where vLLM is; "
        "MEDLEY_CLOUD and MEDLEY_METADATA_URL, who tells it that the machine will be taken; MEDLEY_NODE_NETWORK, the "
        "private network that it is in; MEDLEY_NODE_PORTS, those that its cloud publishes where it is in none; "
        "MEDLEY_OVERLAY_ADDRESS, its own in an overlay network, at which gateways reach it.",
    )
    parser.add_argument("--registry", required=True, metavar="tcp://HOST:PORT")
    parser.add_argument("--hub", required=True, metavar="tcp://HOST:PORT")
    parser.add_argument("--control-key", required=True, help="public key of both, behind a =: it may begin with a dash")
    parser.add_argument("--home", type=Path, required=True, help="directory; the node's own lies in it, by its name")
    parser.add_argument(
        "--interface",
        default=os.environ.get("MEDLEY_NODE_ADDRESS", "127.0.0.1"),
        help="address of this node on the private network; default: MEDLEY_NODE_ADDRESS, or this machine alone",
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="what its engines run on")
    return parser.parse_args()


async def _serve(registry: Address, settings: NodeSettings, token: str) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    ended = asyncio.create_task(stop.wait())
    work = asyncio.create_task(_work(registry, settings, token))
    await asyncio.wait((ended, work), return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _work(registry: Address, settings: NodeSettings, token: str) -> None:
    key_file = settings.home / "node.key"
    if not key_file.exists():
        KeyPair.generate().save(key_file)
    keys = KeyPair.load(key_file)
    # To register again with the same key does no harm: an agent that was started anew is the same node.
    while True:
        try:
            name = await register(registry, token, keys, _TRY_S, settings.channel)
        except PeerLostError as error:
            _log.warning("%s; trying on", error)
        else:
            break
    _log.info("%s %s", REGISTERED, name)
    await NodeAgent(keys, key_file, settings).run()


def main() -> None:
    given = _arguments()
    log_json_lines()
    try:
        name, token = os.environ["MEDLEY_NODE"], os.environ.pop("MEDLEY_BOOTSTRAP_TOKEN")
        home = given.home.absolute() / name
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = NodeSettings(
            home=home,
            hub=Address(given.hub, given.control_key),
            interface=given.interface,
            network=os.environ.get("MEDLEY_NODE_NETWORK", ""),
            overlay=os.environ.get("MEDLEY_OVERLAY_ADDRESS", ""),
            ports=published_ports(os.environ),
            device=given.device,
            threads=int(os.environ.get("MEDLEY_NODE_THREADS", "1")),
            pace=float(os.environ.get("MEDLEY_NODE_PACE", "1")),
            slab_mib=int(os.environ.get("MEDLEY_NODE_SLAB_MIB", "0")),
            cloud=os.environ.get("MEDLEY_CLOUD", ""),
            metadata=os.environ.get("MEDLEY_METADATA_URL", ADDRESS),
            pythons=engine_pythons(os.environ),
        )
        uvloop.run(_serve(Address(given.registry, given.control_key), settings, token))
    except KeyError as error:
        raise SystemExit(f"node: the environment has no {error.args[0]}") from None
    except (BadKeyError, RefusedError, OSError, ValueError) as error:
        raise SystemExit(f"node: {error}") from None


if __name__ == "__main__":
    main()
