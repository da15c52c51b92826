"""`python -m agents.scheduler`: the scheduler of one instance as a process of its own; prints its addresses and key as
a JSON line, and ends with its instance."""

import argparse
import asyncio
import json
import signal
from contextlib import ExitStack
from pathlib import Path

import uvloop

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.kv_pool.connection import PoolLostError
from agents.kv_pool.leased_quota import LeasedQuota, leased_quota
from agents.scheduler.instance_file import BadInstanceFileError, InstanceFile, read_instance_file
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.server import InstanceScheduler
from agents.scheduler.settings import SchedulerSettings
from agents.tracing.json_lines import log_json_lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.scheduler", description=__doc__)
    parser.add_argument("--instance", type=Path, required=True, help="file that says which pipeline, and who may speak")
    parser.add_argument("--key", type=Path, required=True, help="file of its key pair")
    return parser.parse_args()


async def _serve(instance: InstanceFile, keys: KeyPair) -> str:
    """Serve; return why it failed, empty when it was told to stop. Raises PoolLostError."""
    with ExitStack() as held:
        layout, quota = instance.layout, None
        if instance.pool:
            quota = held.enter_context(leased_quota(Path(instance.pool), instance.member))
            layout = layout.in_pool(quota.block_tokens, quota.most)
        return await _run(instance, keys, layout, quota)


async def _run(instance: InstanceFile, keys: KeyPair, layout: PipelineLayout, quota: LeasedQuota | None) -> str:
    scheduler = InstanceScheduler(
        instance.bind,
        instance.bind_stages,
        instance.interface,
        keys,
        instance.gateways,
        instance.workers,
        layout,
        SchedulerSettings(
            network=instance.network, prefix_cache=instance.prefix_cache, speculation=instance.speculation
        ),
        quota,
    )
    addresses = {"endpoint": scheduler.endpoint, "stages": scheduler.stages_endpoint, "public_key": keys.public}
    print(json.dumps(addresses), flush=True)
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, scheduler.over.set)
    await scheduler.over.wait()
    await scheduler.stop()
    return scheduler.failure


def _main() -> None:
    arguments = _arguments()
    try:
        failure = uvloop.run(_serve(read_instance_file(arguments.instance), KeyPair.load(arguments.key)))
    except (BadKeyError, BadInstanceFileError, PoolLostError, OSError, ValueError) as error:
        raise SystemExit(f"scheduler: {error}") from None
    if failure:
        raise SystemExit(f"scheduler: {failure}")


if __name__ == "__main__":
    log_json_lines()
    _main()
