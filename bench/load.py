"""Compiled load generators: wrk for closed loops, hey for a fixed rate."""

import csv
import io
import json
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request to one address."""

    url: str
    body: dict[str, Any]
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        bearer = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {"content-type": "application/json", **bearer}


def missing_tools() -> list[str]:
    return [tool for tool in ("wrk", "hey") if shutil.which(tool) is None]


def closed_loop(load: Load, connections: int, seconds: float) -> float:
    """Requests per second with so many clients that each wait for their answer. Raises RuntimeError on any failure."""
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as folder:
        script = Path(folder) / "request.lua"
        headers = "".join(f"wrk.headers[{json.dumps(k)}]={json.dumps(v)}\n" for k, v in load.headers.items())
        script.write_text(f'wrk.method="POST"\nwrk.body={_lua_string(json.dumps(load.body))}\n{headers}')
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(script), load.url]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(f"requests failed:\n{text}")
    return float(_find(r"Requests/sec:\s+([\d.]+)", text))


def fixed_rate(load: Load, requests_per_s: float, seconds: float, status: str = "200") -> tuple[float, float, float]:
    """(requests per second reached, median, 99th percentile; both ms). Raises RuntimeError for any other status.

    One hey for each of 20 clients: the clients of one hey tick together, which makes bursts of a steady rate.
    """
    clients = 20
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(load.body, file)
        file.flush()
        headers = [part for name, value in load.headers.items() for part in ("-H", f"{name}: {value}")]
        rate = ["-z", f"{seconds:g}s", "-c", "1", "-cpus", "1", "-q", f"{requests_per_s / clients:g}", "-o", "csv"]
        command = ["hey", *rate, "-m", "POST", *headers, "-D", file.name, load.url]
        children = []
        for _ in range(clients):
            children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            time.sleep(1 / requests_per_s)
        rows = [row for child in children for row in csv.DictReader(io.StringIO(child.communicate()[0]))]
    statuses = {row["status-code"] for row in rows}
    if statuses != {status}:
        raise RuntimeError(f"requests failed with status {', '.join(sorted(statuses))}")
    times_ms = sorted(1000 * float(row["response-time"]) for row in rows)
    return len(rows) / seconds, times_ms[len(rows) // 2], times_ms[int(len(rows) * 0.99)]


def _find(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"the load generator said something else than expected:\n{text}")
    return match[1]


def _lua_string(text: str) -> str:
    """Long brackets: nothing in between has a meaning."""
    return f"[=====[{text}]=====]"
