"""Everything that only a GPU can show, one after the other, for the day that one can be had.

    python -m bench.gpu_all --gpu H100 [--out gpu-report] [--minutes 10] [--device cuda] [--only NAME,...]

Each part is a process of its own, with what is left of the minutes; what it prints is kept in the folder, and a part
that is done is not done again, so a run that was broken off goes on where it was. `report.md` has the date, the machine
and what each part said. A part that cannot run here (there is no GPU, or one where two are needed, or vLLM is not
installed) says so, and is tried again by the next run. Ends with status 1 where a part failed, could not run or had no
time left.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

PROGRAMS = (
    "tests/agents/executor",
    "tests/agents/stage/test_instance.py",
    "tests/agents/hand_off/test_two_legs.py",
    "tests/agents/engines/test_torch_engine_exact.py",
    "tests/agents/engines/test_decode_steps.py",
    "tests/agents/engines/test_torch_engine_kv_blocks.py",
    "tests/agents/engines/components/test_encoders.py",
)
"""Tests of the node's own programs and of engines, which then run on the device."""
PARTS: dict[str, tuple[str, ...]] = {
    "kernels": ("agents.engines.torch_engine.kernels.check", "--device", "{device}"),
    "tokens": ("bench.gpu_tokens", "--device", "{device}"),
    "stages": ("bench.gpu_stages", "--gpu", "{gpu}", "--device", "{device}"),
    "profile": ("bench.gpu_profile", "--gpu", "{gpu}", "--device", "{device}", "--rows", "{folder}/profile.jsonl"),
    "vllm": ("bench.gpu_vllm", "--device", "{device}"),
    "pairs": ("bench.gpu_pairs", "--device", "{device}"),
    "kernel-times": ("bench.gpu_kernels", "--gpu", "{gpu}", "--device", "{device}"),
    "programs": ("pytest", "-v", "-n", "6", "--tb=short", "-p", "no:cacheprovider", *PROGRAMS),
}
"""Name → module and arguments, what is worth most first."""
_PROGRESS = re.compile(r"\d+%\|.*\[|^\[W\d+ ")
"""Bars of libraries, and warnings of torch's own threads."""
CANNOT = os.EX_UNAVAILABLE
"""Exit status of a part that cannot run here; its last line says why."""
_TAIL = 40
"""Lines of what a failed part printed that are shown."""


def machine() -> str:
    """Say what this runs on."""
    lines = [f"torch {torch.__version__}, CUDA {torch.version.cuda}, {platform.platform()}"]
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        lines.append(
            f"GPU {number}: {card.name}, {card.total_memory / 2**30:.1f} GiB, capability {card.major}.{card.minor}"
        )
    return "\n".join(lines)


def lacking(device: str) -> str:
    """Say what no part can do without; empty: nothing."""
    if device == "cpu" or (torch.cuda.is_available() and torch.cuda.device_count()):
        return ""
    return f"cannot run: torch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU here"


def run(name: str, folder: Path, values: dict[str, str], timeout_s: float) -> dict[str, object]:
    """Do a part. What came of it: `status` is `ok`, `failed`, `cannot run` or `out of time`."""
    module, *arguments = PARTS[name]
    command = [sys.executable, "-m", module, *(each.format(**values) for each in arguments)]
    start, said = time.perf_counter(), folder / f"{name}.txt"
    if why := lacking(values["device"]):
        said.write_text(why + "\n")
        status = "cannot run"
    else:
        status = _done(command, said, values["device"], timeout_s)
    return {
        "status": status,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - start, 1),
        "command": " ".join(command[1:]),
    }


def _done(command: list[str], said: Path, device: str, timeout_s: float) -> str:
    with said.open("w") as out:
        environment = os.environ | {"MEDLEY_TEST_DEVICE": device}
        part = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            status = part.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(part.pid, signal.SIGKILL)  # its own processes too
            part.wait()
            return "out of time"
    return {0: "ok", CANNOT: "cannot run"}.get(status, "failed")


def report(folder: Path, gpu: str, done: dict[str, dict[str, object]]) -> None:
    lines = [f"# {gpu}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "", machine().replace("\n", "  \n"), ""]
    for name in PARTS:
        found = done.get(name)
        lines += [f"## {name}: {found['status'] if found else 'not tried'}", ""]
        if found:
            said = (folder / f"{name}.txt").read_text().splitlines()
            lines += [
                f"`python {found['command']}`, {found['seconds']} s, {found['at']}",
                "",
                "```",
                *[line for line in said if line and not _PROGRESS.search(line)][-400:],
                "```",
                "",
            ]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="the card's name in gpus.csv")
    parser.add_argument("--out", type=Path, default=Path("gpu-report"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default=",".join(PARTS), help="of %(default)s")
    arguments = parser.parse_args()
    wanted = [name for name in PARTS if name in arguments.only.split(",")]
    arguments.out.mkdir(parents=True, exist_ok=True)
    state = arguments.out / "done.json"
    done: dict[str, dict[str, object]] = json.loads(state.read_text()) if state.exists() else {}
    until = time.monotonic() + 60 * arguments.minutes
    values = {"gpu": arguments.gpu, "device": arguments.device, "folder": str(arguments.out)}
    for name in wanted:
        left_s = until - time.monotonic()
        if done.get(name, {}).get("status") == "ok" or left_s <= 0:
            continue
        done[name] = run(name, arguments.out, values, left_s)
        state.write_text(json.dumps(done, indent=1))
        print(f"{name}: {done[name]['status']}, {done[name]['seconds']} s", flush=True)
        if done[name]["status"] != "ok":
            print("\n".join((arguments.out / f"{name}.txt").read_text().splitlines()[-_TAIL:]), flush=True)
    report(arguments.out, arguments.gpu, done)
    print(f"report: {arguments.out / 'report.md'}")
    return 0 if all(done.get(name, {}).get("status") == "ok" for name in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
