"""Whether a real local fleet keeps what its plan certified, with round-robin beside it.

    python -m bench.local_promise [--minutes 10] [--seed N] [--home FOLDER]

`medley up` serves SmolLM2 from unlike nodes of three kinds, prefill and decode apart (`bench/local_promise.yaml`; with
`--home` the step times measured there serve the next run too). Poisson requests come at the rate that the plan
certifies, with the lengths that it was made for, as streams over HTTP: for `--minutes` through the fleet's own gateway,
and the same requests again through a second gateway whose table differs in the routing policy alone (`wrr-v1`).
Latencies are the client's, from the time at which a request should have been sent. `certified` is the attainment that
the plan says, simulated with another seed.

The bar: under `slack-v1` both objectives are kept by the percentile at least, and each attainment is within 2 points of
the certificate. Run it on a machine that does nothing else: nodes have hard shares of its processors. Exits 1 where the
bar is missed.
"""

import argparse
import asyncio
import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import numpy as np

from bench.fidelity.trace import Asked, poisson
from control.db.database import open_database
from control.db.plans import PostgresPlans
from control.gateway.published import read_published, write_published
from control.planning.world import read_world
from control.up.home import UpHome
from templates_lib.apps.served_model import ServedModel
from templates_lib.values.plan import Plan
from templates_lib.values.work import Phase

SPEC = Path(__file__).with_suffix(".yaml")
MEDLEY = (sys.executable, "-c", "from control.cli.main import run; run()")
POLICIES = ("slack-v1", "wrr-v1")
WITHIN = 0.02
READY_S, START_S, END_S, ANSWER_S = 900.0, 60.0, 120.0, 300.0
POLL_S = 0.1
WARM_UP_S = 30.0
"""Time whose requests are not counted."""
PAIRS = 400
"""Lengths that the workload has."""
PROMPTS, ANSWERS = (16, 48, 128), (2, 10, 32)
"""Tokens, (least, median, most) of log-normal lengths."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer as its client saw it: time to its first token, infinite where it failed, and per further token."""

    ttft_ms: float
    tpot_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=20261125)
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        home = arguments.home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="medley-promise-")))
        home.mkdir(parents=True, exist_ok=True)
        spec = _spec(home)
        (served,) = read_world(spec).recipe.served
        key = stack.enter_context(_up(spec, home))
        fleet = UpHome.below(home)
        plan = _plan(home)
        rate = sum(flow.requests_per_s for flow in plan.flows)
        print(
            f"{len(plan.instances)} kinds of instance, {plan.usd_per_hour:.3f} $/h, at {rate:.2f} requests/s",
            flush=True,
        )
        asked = poisson(served.shape, rate, WARM_UP_S + 60 * arguments.minutes, arguments.seed)
        warm_up = sum(one.arrival_s < WARM_UP_S for one in asked)
        heard = {}
        for policy in POLICIES:
            with _gateway(fleet, policy, home) as url:
                heard[policy] = asyncio.run(_asked(url, key, served.name, asked))[warm_up:]
    return 0 if _judged(plan, served, heard) else 1


def _judged(plan: Plan, served: ServedModel, heard: Mapping[str, Sequence[Heard]]) -> bool:
    """Print the table; tell whether the bar is met."""
    print("| objective | certified | " + " | ".join(heard) + " | requests |")
    print("|---|---|" + "---|" * len(heard) + "---|")
    slo, is_met = served.slo, True
    for phase in (Phase.PREFILL, Phase.DECODE):
        certified = plan.attainment[served.class_id(phase)].share
        kept = {policy: _share(answers, served, phase) for policy, answers in heard.items()}
        own = kept[POLICIES[0]]
        is_met &= own >= slo.percentile / 100 and abs(own - certified) <= WITHIN
        name = f"TTFT {slo.ttft_ms:g} ms" if phase is Phase.PREFILL else f"TPOT {slo.tpot_ms:g} ms"
        count = len(heard[POLICIES[0]])
        print(
            f"| {name} | {certified:.2%} | " + " | ".join(f"{kept[policy]:.2%}" for policy in heard) + f" | {count} |"
        )
    verdict = "met" if is_met else "missed"
    print(f"{POLICIES[0]}: both by {slo.percentile:g} %, within {100 * WITHIN:g} points of the certificate: {verdict}")
    return is_met


def _share(answers: Sequence[Heard], served: ServedModel, phase: Phase) -> float:
    slo = served.slo
    if phase is Phase.PREFILL:
        return float(np.mean([each.ttft_ms <= slo.ttft_ms for each in answers]))
    return float(np.mean([each.ttft_ms < math.inf and each.tpot_ms <= slo.tpot_ms for each in answers]))


def _spec(home: Path) -> Path:
    """Write the fleet's file and the lengths that it names."""
    draw = np.random.default_rng(1)
    columns = []
    for least, median, most in (PROMPTS, ANSWERS):
        drawn = np.round(median * np.exp(draw.normal(0, 0.7, PAIRS)))
        columns.append(np.clip(drawn, least, most).astype(int).tolist())
    with (home / "lengths.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("input_tokens", "output_tokens"))
        rows.writerows(zip(*columns, strict=True))
    spec = home / "fleet.yaml"
    spec.write_text(SPEC.read_text().replace("LENGTHS\n", "lengths.csv\n"))
    return spec


@contextmanager
def _up(spec: Path, home: Path) -> Iterator[str]:
    """`medley up` of the spec; its key, once it serves. Raises RuntimeError with its words when it does not."""
    said = home / "up.out"
    with said.open("wb") as output:
        up = subprocess.Popen(
            (*MEDLEY, "up", "-f", str(spec), "--port", "0", "--console-port", "0"),
            env=_environment(home), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield _until_ready(up, said)
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(END_S)


def _until_ready(up: "subprocess.Popen[bytes]", said: Path) -> str:
    give_up_s = time.monotonic() + READY_S
    while (found := re.search(r"^ready after .*, key (\S+)$", said.read_text(), re.M)) is None:
        if up.poll() is not None or time.monotonic() > give_up_s:
            raise RuntimeError(f"the fleet did not start: {said.read_text()[-2000:]}")
        time.sleep(POLL_S)
    return found[1]


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDLEY_")}
    return kept | {"MEDLEY_HOME": str(home)}


def _plan(home: Path) -> Plan:
    """The plan that the fleet is held to."""
    status = subprocess.run(
        (*MEDLEY, "status", "-o", "json"), env=_environment(home), capture_output=True, check=True, text=True
    )
    (fleet,) = json.loads(status.stdout)["fleets"]
    with open_database(data_dir=home / "postgres") as database:
        return PostgresPlans(database).load(fleet["plan"])


@contextmanager
def _gateway(fleet: UpHome, policy: str, home: Path) -> Iterator[str]:
    """A gateway for the fleet's instances as its table says, under `policy`; its URL."""
    published = read_published(fleet.table)
    models = tuple(replace(m, routing=replace(m.routing, policy=policy)) for m in published.models)
    table = home / f"table-{policy}.json"
    write_published(table, replace(published, models=models, demand_desk=None))
    command = (sys.executable, "-m", "control.gateway", "--host", "127.0.0.1", "--port", "0")
    with (home / "gateway.out").open("ab") as log:
        process = subprocess.Popen(
            (*command, "--table", str(table), "--key", str(fleet.gateway_key)),
            env=_environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        _until_served(url)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(END_S)


def _until_served(url: str) -> None:
    """Until every model can be asked for. Raises RuntimeError."""
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        if httpx.get(f"{url}/readyz").status_code == 200:
            return
        time.sleep(POLL_S)
    raise RuntimeError(f"the gateway at {url} is not ready after {START_S:g} s")


async def _asked(url: str, key: str, model: str, asked: Sequence[Asked]) -> list[Heard]:
    """Each at its time, whatever becomes of the others."""
    limits = httpx.Limits(max_connections=None)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=ANSWER_S) as client:
        began_s = time.perf_counter() + 0.5
        calls = (_answer(client, model, one, n, began_s + one.arrival_s) for n, one in enumerate(asked))
        return await asyncio.gather(*calls)


async def _answer(client: httpx.AsyncClient, model: str, one: Asked, number: int, at_s: float) -> Heard:
    await asyncio.sleep(max(0.0, at_s - time.perf_counter()))
    prompt = [1000 + (number * 37 + i) % 5000 for i in range(one.prompt_tokens)]
    body = {
        "model": model, "prompt": prompt, "max_tokens": one.output_tokens, "ignore_eos": True, "temperature": 0,
        "stream": True,
    }  # fmt: skip
    heard_s: list[float] = []
    is_whole = False
    try:
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line == "data: [DONE]":
                    is_whole = True
                elif line.startswith("data: "):
                    heard_s.append(time.perf_counter())
    except httpx.HTTPError as error:
        print(f"request {number} failed: {error!r}", file=sys.stderr)
    if not is_whole or not heard_s:
        return Heard(math.inf, math.inf)
    further = max(one.output_tokens - 1, 1)
    return Heard(1000 * (heard_s[0] - at_s), 1000 * (heard_s[-1] - heard_s[0]) / further)


if __name__ == "__main__":
    sys.exit(main())
