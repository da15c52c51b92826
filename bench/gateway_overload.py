"""A gateway under five times the load that it can serve, and beside clients that do it harm.

    python -m bench.gateway_overload [overload] [hostile] [--seconds 600] [--hostile-seconds 60]

Real processes on loopback: a gateway, an echo scheduler that answers as fast as its table says, and clients.

overload: five keys ask for five times what the engine does, four of them for more than a fair share,
at unlike rates, and none obeys `Retry-After`. Bars: memory of the gateway is flat within 5 % (mean of the last quarter
against the second), 99 % of what is admitted begins within the objective, every refusal is a 429 or 503 with
`Retry-After`, and each key gets its fair share within 10 %.

hostile: text at 50 requests/s, alone and beside 2,000 idle connections, slow senders, streams that nobody reads, bodies
of 100 MB, header floods, deep JSON and floods of requests on one connection. Bars: the 99th percentile of the text
grows by no more than 10 ms (median of the rounds), memory stays below 200 MiB more than before, and within 10 s of
their end at least four fifths of what it grew by is given back (or it is below 20 MiB).

Exits with 1 where a bar is missed.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from bench.gateway import PROMPT_BYTES, ROOT, smollm2, wait_ready
from bench.load import Load, fixed_rate, missing_tools
from bench.text_tables import WHOLE, member, text_model
from control.gateway.published import AccessKey, Published, PublishedModel, write_published

PER_S = 40.0
"""Requests that the engine does in a second, by its table."""
TOKENS, STEP_S, RUNNING = 16, 0.02, 16
"""16 at a time, each of 16 tokens in 0.32 s: 50 requests a second, a quarter more than the table says."""
MAX_WAIT_S, OBJECTIVE_S = 2.0, 3.0
RATES = {"a": 100.0, "b": 40.0, "c": 40.0, "d": 18.0, "light": 2.0}
"""Requests per second of each key: five times the capacity together."""
WARM_UP_S = 10.0
FLAT, SHARE = 0.05, 0.10
HOSTILE_MS, MOST_GROWTH_MIB, GIVEN_BACK, SMALL_MIB = 10.0, 200.0, 0.8, 20.0
TEXTS_PER_S = 50.0


def key_of(name: str) -> tuple[str, AccessKey]:
    """What a client sends, and what the table has of it; each key is of a project of its own."""
    token_id = hashlib.sha256(name.encode()).hexdigest()[:12]
    secret = hashlib.sha256(f"{name}'s".encode()).hexdigest()
    access = AccessKey(token_id, hashlib.sha256(secret.encode()).hexdigest(), name)
    return f"medley_{token_id}_{secret}", access


@dataclass
class Gateway:
    url: str
    process: psutil.Process

    @property
    def mib(self) -> float:
        """Resident memory."""
        return float(self.process.memory_info().rss) / (1 << 20)

    @contextmanager
    def watched(self) -> Iterator[list[float]]:
        """Sample the memory, MiB, twice a second until the end."""
        over, samples = threading.Event(), list[float]()

        def watch() -> None:
            while not over.wait(0.5):
                samples.append(self.mib)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield samples
        finally:
            over.set()
            thread.join()


@contextmanager
def gateway(per_s: float, *echo_arguments: str) -> Iterator[Gateway]:
    """A gateway before two echo schedulers, whose keys are those of `RATES`: model `echo`, and `slow`, which makes 10
    tokens a second for each of many streams."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="medley-bench-")))
        keys = KeyPair.generate()
        keys.save(folder / "gateway.key")
        allow = ["--key", str(folder / "echo.key"), "--allow", f"gateway={keys.public}", "--calls-kept", "0"]
        engines = {"echo": echo_arguments, "slow": ("--step-s", "0.1")}
        said_of = {name: stack.enter_context(child("agents.echo", *allow, *how))[1] for name, how in engines.items()}
        routed = [text_model(name, [member(name, name, "zone", WHOLE, per_s)]) for name in engines]
        served = tuple(PublishedModel(each, str(smollm2()), 8192, 0) for each in routed)
        access = tuple(key_of(name)[1] for name in RATES)
        addresses = {name: Address(each["endpoint"], each["public_key"]) for name, each in said_of.items()}
        write_published(folder / "table.json", Published(1, addresses, served, access))
        table = ["--table", str(folder / "table.json"), "--key", str(folder / "gateway.key")]
        started, said = stack.enter_context(
            child("control.gateway", "--port", "0", "--max-wait-s", str(MAX_WAIT_S), *table)
        )
        wait_ready(said["url"])
        yield Gateway(said["url"], psutil.Process(started.pid))


@contextmanager
def child(module: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process that says where it is, or that it has begun, in its first line; ended afterwards."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def overload(seconds: float) -> bool:
    texts = {name: key_of(name)[0] for name in RATES}
    engine = ["--step-s", str(STEP_S), "--max-running", str(RUNNING)]
    with gateway(PER_S, *engine) as there, there.watched() as memory:
        command = [sys.executable, "-m", "bench.keyed_load", there.url + "/v1/completions", str(seconds)]
        rates = [f"{texts[name]}={rate}" for name, rate in RATES.items()]
        options = ["--warm-up-s", str(WARM_UP_S), "--tokens", str(TOKENS)]
        done = subprocess.run([*command, *rates, *options], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    found = json.loads(done.stdout)
    served = {name: len(found[text]["first_token_s"]) / (seconds - WARM_UP_S) for name, text in texts.items()}
    asked = {name: sum(found[text]["statuses"].values()) / (seconds - WARM_UP_S) for name, text in texts.items()}
    fair = (PER_S - asked["light"]) / (len(RATES) - 1)
    for name, text in texts.items():
        print(f"  {name:6} asks {asked[name]:5.1f}/s, gets {served[name]:5.2f}; answers {found[text]['statuses']}")
    times_s = sorted(time_s for each in found.values() for time_s in each["first_token_s"])
    late_s = times_s[int(0.99 * len(times_s))]
    statuses = {status for each in found.values() for status in each["statuses"]}
    quarter = len(memory) // 4
    before, after = statistics.mean(memory[quarter : 2 * quarter]), statistics.mean(memory[3 * quarter :])
    wanted = {name: min(asked[name], fair) for name in RATES}
    off = max(abs(served[name] / wanted[name] - 1) for name in RATES)
    broken = sum(each["without_retry_after"] + each["broken"] for each in found.values())
    total = sum(served.values())
    return all(
        [
            told(f"shares are off by {100 * off:.1f} % of fair at the most ({total:.1f} served/s)", off <= SHARE),
            told(f"p99 of the first token {late_s:.2f} s, objective {OBJECTIVE_S} s", late_s <= OBJECTIVE_S),
            told(f"answers {', '.join(sorted(statuses))}; {broken} broken, or refused without Retry-After",
                 statuses <= {"200", "429", "503"} and not broken),
            told(f"memory {before:.1f} MiB, then {after:.1f}: {100 * (after / before - 1):+.1f} %",
                 after / before - 1 <= FLAT),
        ]
    )  # fmt: skip


def hostile(seconds: float, rounds: int, kinds: list[str]) -> bool:
    text = (ROOT / "README.md").read_text()[:PROMPT_BYTES]
    body = {"model": "echo", "prompt": text, "max_tokens": 16}
    with gateway(1e9, "--tokens-per-step", "16", "--step-s", "0.002") as there:
        load = Load(there.url + "/v1/completions", body, key_of("a")[0])
        fixed_rate(load, TEXTS_PER_S, 5.0)
        grown, before_mib = list[float](), there.mib
        with there.watched() as memory:
            for _ in range(rounds):
                alone = fixed_rate(load, TEXTS_PER_S, seconds)
                with child("bench.hostile_clients", there.url, key_of("b")[0], "--kinds", *kinds):
                    beside = fixed_rate(load, TEXTS_PER_S, seconds)
                grown.append(beside[2] - alone[2])
                print(
                    f"  alone median {alone[1]:.1f}, p99 {alone[2]:.1f} ms; beside {beside[1]:.1f}, {beside[2]:.1f} ms"
                )
        time.sleep(10.0)
        peak_mib, after_mib = max(memory) - before_mib, there.mib - before_mib
    median, kept = statistics.median(grown), after_mib <= max(SMALL_MIB, (1 - GIVEN_BACK) * peak_mib)
    return all(
        [
            told(f"p99 of others grows by {median:.1f} ms, bar {HOSTILE_MS:.0f} ms", median <= HOSTILE_MS),
            told(f"memory grows by {peak_mib:.0f} MiB over {before_mib:.0f}, bar {MOST_GROWTH_MIB:.0f}",
                 peak_mib <= MOST_GROWTH_MIB),
            told(f"memory after it {after_mib:+.0f} MiB", kept),
        ]
    )  # fmt: skip


def told(text: str, is_met: bool) -> bool:
    print(f"{text}: {'met' if is_met else 'MISSED'}", flush=True)
    return is_met


def main() -> int:
    from bench.hostile_clients import KINDS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["overload", "hostile"], help="all, where none is named")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the overload")
    parser.add_argument("--hostile-seconds", type=float, default=30.0, help="of each of two measurements a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of hostile clients")
    given = parser.parse_args()
    parts = given.parts or ["overload", "hostile"]
    if "hostile" in parts and missing_tools():
        print(f"compiled load generators are missing: apt-get install {' '.join(missing_tools())}")
        return 1
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    met = []
    if "overload" in parts:
        met.append(overload(given.seconds))
    if "hostile" in parts:
        met.append(hostile(given.hostile_seconds, given.rounds, given.kinds))
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
