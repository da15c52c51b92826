"""The words of text generation stay where text is computed: everything else has legs, work classes and executors."""

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
AUTOREGRESSIVE = (
    *(f"agents/{part}/" for part in ("echo", "edges", "engines", "hand_off", "profile", "scheduler", "stage", "unit")),
    *("agents/transfer/", "agents/vllm_engine/", "control/profiles/", "control/simulator/serving/", "control/timing/"),
    *(f"templates_lib/{part}/" for part in ("cost", "placement_solver", "sources", "throughput", "units")),
    "policies/shared_units/",
)
WORDS = re.compile(r"prefill|pipeline|decode_(requests|context|tokens)|(?<![.\w])decode(?![\w(,])")
"""`decode` as a phase; bytes and codecs are decoded by functions and methods of that name."""
MOST_FILES = 20


def test_few_files_outside_of_text_generation_name_its_phases() -> None:
    listed = subprocess.run(
        ("git", "ls-files", "-z", "control", "agents", "policies", "templates_lib"),
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    files = [name for name in listed if name.endswith(".py") and not name.startswith(AUTOREGRESSIVE)]
    assert len(files) > 100
    named = [name for name in files if (path := REPOSITORY / name).exists() and WORDS.search(path.read_text())]
    assert len(named) <= MOST_FILES, named
