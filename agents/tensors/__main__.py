"""`python -m agents.tensors`: the tensor sidecar of a node as a process of its own; prints a JSON line once it serves,
and ends with its owner. Nothing of it stays: its memory has no name, and its socket no file."""

import argparse
import json
import os
import signal

from agents.tensors.settings import SidecarSettings
from agents.tensors.sidecar import Sidecar
from agents.tensors.slab import ALIGNMENT
from agents.tracing.json_lines import log_json_lines
from agents.transfer.errors import StoreFullError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.tensors", description=__doc__)
    parser.add_argument("--name", required=True, help="by which processes of this node find it")
    parser.add_argument("--interface", default="127.0.0.1", help="this node's address, where other sidecars come")
    parser.add_argument("--slab-mib", type=int, required=True, help="shared memory, taken at once")
    parser.add_argument("--quota-mib", type=int, help="that one producer may have; default: half of the slab")
    parser.add_argument("--kept-mib", type=int, help="for rows that are kept by key; default: a quarter of the slab")
    parser.add_argument("--chunk-kib", type=int, default=4096, help="of what is sent while the next is written")
    parser.add_argument("--encrypt", action="store_true", help="links are TLS: the nodes share no private network")
    parser.add_argument("--owner", type=int, help="process with which it ends")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> SidecarSettings:
    """Raises ValueError."""
    slab = arguments.slab_mib << 20
    quota = slab // 2 if arguments.quota_mib is None else arguments.quota_mib << 20
    kept = slab // 4 if arguments.kept_mib is None else arguments.kept_mib << 20
    chunk = arguments.chunk_kib << 10
    if not 0 < quota <= slab or not 0 <= kept <= slab:
        raise ValueError("the quota and what is kept are parts of the slab")
    if chunk <= 0 or chunk % ALIGNMENT or chunk > quota:
        raise ValueError(f"a chunk is a multiple of {ALIGNMENT} bytes, and within the quota")
    return SidecarSettings(slab, quota, kept, chunk, is_encrypted=arguments.encrypt)


def _main() -> None:
    arguments = _arguments()
    try:
        sidecar = Sidecar(_settings(arguments), arguments.name, arguments.interface)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: sidecar.stop())
        print(json.dumps({"name": arguments.name, "pid": os.getpid(), "port": sidecar.address.port}), flush=True)
        sidecar.run(arguments.owner)
    except (OSError, StoreFullError, ValueError) as error:
        raise SystemExit(f"tensors: {error}") from None


if __name__ == "__main__":
    log_json_lines()
    _main()
