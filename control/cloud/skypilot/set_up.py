"""Set-up of a node at its launch: the agent's wheel, its requirements, its secrets.

A node installs the wheel of the control plane that started it, whatever has been published, once its hash is checked.
Secrets travel in a file of their own over the connection that SkyPilot copies files with: they are in no argument, no
log, no task and no database of SkyPilot's. The node removes the file as it reads it, and so does the control plane once
the node is up.
"""

import importlib.metadata
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from control.cloud.node import NodeRequest
from control.cloud.skypilot.agent_wheel import DISTRIBUTION, agent_wheel
from control.cloud.skypilot.home import SkyPilotHome
from control.overlay.place import DEVICE, KEY_VARIABLE, MTU
from templates_lib.values.engines import ENGINES, compiling, environments

SET_UP_FAILED = "medley: the set-up of this node has failed"
"""Begins the last line of a set-up that fails: the control plane looks for it in the node's log."""
_TRAP = (
    f'''trap 'code=$?; [ "$code" = 0 ] || {{ echo "{SET_UP_FAILED} with exit code $code" >&2; '''
    """[ -z "${SKYPILOT_TASK_ID:-}" ] || sleep 3; }' EXIT"""
)
"""Shell command that says so when a set-up fails, and stays behind its last words in a job of SkyPilot's: Ray passes on
what a job prints, and SkyPilot waits a second for that, which on a busy node is not enough."""
AGENT_LOCK = "data/engines/agent.lock"
"""Wheels that a node installs where its image lacks what the agent needs, with their hashes (`make locks`)."""
_DRIVER = """\
if ! driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1)"; then
    echo "medley: no working driver of NVIDIA: $driver" >&2
    exit 1
fi
driver="${{driver%%.*}}"
if [ "$driver" -lt {least} ]; then
    echo "medley: driver $driver of NVIDIA, and engines need {least} or later: choose another image (--image)" >&2
    exit 1
fi
"""
_COMPILER = """\
if ! command -v cc > /dev/null && ! command -v gcc > /dev/null; then
    echo "medley: this node has no C compiler, which engine {engines} needs: choose an image with gcc (--image)" >&2
    exit 1
fi
"""
_SET_UP = """\
(
set -eu
{trap}
{driver}{compiler}wheel="$HOME/.medley/{wheel}"
if ! echo "{sha256}  $wheel" | sha256sum --check --status; then
    found="$(sha256sum < "$wheel" | cut -d ' ' -f 1)"
    echo "medley: {wheel} has the hash $found, and {sha256} was sent: it was damaged or replaced; launch again" >&2
    exit 1
fi
install_agent() {{
    rm -rf "$HOME/.medley/code"
    "$1" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$HOME/.medley/code" "$wheel"
    echo "$1" > "$HOME/.medley/python"
}}
cat > "$HOME/.medley/meets.py" <<'MEDLEY_END'
import importlib.metadata, sys
from pip._vendor.packaging.requirements import Requirement
if sys.version_info < (3, 11):
    sys.exit(f"Python {{sys.version.split()[0]}} is too old")
for wanted in map(Requirement, sys.argv[1:]):
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"no {{wanted.name}}")
    if not wanted.specifier.contains(found, prereleases=True):
        sys.exit(f"{{wanted.name}} {{found}} is not {{wanted.specifier}}")
MEDLEY_END
for python in "$HOME/.medley/venv/bin/python" python3 python3.13 python3.12 python3.11; do
    if command -v "$python" > /dev/null && "$python" "$HOME/.medley/meets.py" {requirements}; then
        install_agent "$(command -v "$python")"
        exit 0
    fi
done
export PATH="$HOME/.local/bin:$PATH"
command -v uv > /dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh
uv venv --quiet --seed --python 3.12 "$HOME/.medley/venv"
install_agent "$HOME/.medley/venv/bin/python"
uv pip install --quiet --require-hashes --only-binary :all: --python "$HOME/.medley/venv/bin/python" \
    -r "$HOME/.medley/code/templates_lib/{lock}"
)
"""
"""Shell script that looks at driver, compiler and wheel before anything is installed, and takes the first Python with
what the agent needs, as in an image made for it, or makes one."""
_SET_UP_ENGINE = """\
(
set -eu
{trap}
for python in "$HOME/.medley/{engine}/bin/python" "${{{variable}:-}}" python3; do
    if command -v "$python" > /dev/null && "$python" "$HOME/.medley/meets.py" {has}; then
        command -v "$python" > "$HOME/.medley/{engine}.python"
        exit 0
    fi
done
export PATH="$HOME/.local/bin:$PATH"
command -v uv > /dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh
uv venv --quiet --seed --python {python} "$HOME/.medley/{engine}"
uv pip install --quiet --require-hashes --only-binary :all: --python "$HOME/.medley/{engine}/bin/python" \
    -r "$HOME/.medley/code/templates_lib/{lock}"
echo "$HOME/.medley/{engine}/bin/python" > "$HOME/.medley/{engine}.python"
)
"""
"""Shell script that does the same for an engine with an environment of its own, behind the other."""
_SET_UP_OVERLAY = """\
(
set -eu
{trap}
as_root() {{ if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }}
if ! command -v wg > /dev/null; then
    as_root apt-get update -qq
    as_root apt-get install -y -qq wireguard-tools > /dev/null
fi
if ! as_root ip link show {device} > /dev/null 2>&1; then
    as_root ip link add {device} type wireguard 2> /dev/null || as_root wireguard-go {device} > /dev/null 2>&1 || {{
        echo "medley: this node makes no WireGuard device: choose an image that has it in its kernel" >&2
        exit 1
    }}
fi
. "$HOME/.medley/secrets"
printf '%s' "${variable}" | as_root wg set {device} private-key /dev/stdin peer {hub_key} \
    endpoint {endpoint} allowed-ips {hub}/128 persistent-keepalive 25
as_root ip address replace {address}/128 dev {device}
as_root ip link set {device} mtu {mtu} up
as_root ip -6 route replace {hub}/128 dev {device}
)
"""
"""Shell script that joins the overlay network: a WireGuard device that calls the control plane's machine, and leads to
it alone."""
_NEXT = "\n[ $? -eq 0 ] &&\n"
"""Between parts of a set-up. `set -e` counts in the last command of a list only: of parts that `&&` joins, all but the
last would go on behind what fails in them."""
_RUN = """\
set -a
. "$HOME/.medley/secrets"
rm -f "$HOME/.medley/secrets"
{environment}
PYTHONPATH="$HOME/.medley/code"
{pythons}
PATH="$(dirname "$(cat "$HOME/.medley/python")"):$PATH"
MEDLEY_NODE_ADDRESS="{address}"
set +a
cd "$HOME/.medley"
exec {command}
"""
_PRIVATE_ADDRESS = """$(printf '%s\\n' "$SKYPILOT_NODE_IPS" | head -n 1)"""
_NO_ADDRESS = "127.0.0.1"
"""Address of a node whose ports are published. What SkyPilot has for it is of its host, and the node cannot listen
there."""


@dataclass(frozen=True, slots=True)
class LaunchFiles:
    set_up: str
    run: str
    files: dict[str, str]
    """Path on the node → path here."""
    directory: Path
    """Directory of this launch alone."""
    sha256: str
    """Hash of the wheel that the node installs."""


@dataclass(frozen=True, slots=True)
class SetUp:
    home: SkyPilotHome

    def stage(self, request: NodeRequest) -> LaunchFiles:
        """Lay out what the node is sent."""
        self.home.launches.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory = Path(tempfile.mkdtemp(prefix=f"{request.name}.", dir=self.home.launches))
        secrets = "".join(f"{_assigned(name, value.reveal())}\n" for name, value in sorted(request.secrets.items()))
        _write(directory / "secrets", secrets.encode())
        wheel = agent_wheel()
        path = self.home.path / wheel.name
        if not path.exists() or path.read_bytes() != wheel.content:
            _write(path, wheel.content)
        return LaunchFiles(
            set_up=_NEXT.join(part.rstrip() for part in _set_up(request)),
            run=_RUN.format(
                environment="\n".join(_assigned(*item) for item in sorted(request.environment.items())),
                pythons="\n".join(
                    f'{ENGINES[name].python_variable}="$(cat "$HOME/.medley/{name}.python")"'
                    for name in environments(request.engines)
                ),
                address=_NO_ADDRESS if request.published_ports else _PRIVATE_ADDRESS,
                command=shlex.join(request.command),
            ),
            files={f"~/.medley/{wheel.name}": str(path), "~/.medley/secrets": str(directory / "secrets")},
            directory=directory,
            sha256=wheel.sha256,
        )

    def forget(self, name: str) -> None:
        """Remove whatever launches of the node have left: a launch that nobody waited for may have needed it for
        longer."""
        for directory in self.home.launches.glob(f"{name}.*"):
            shutil.rmtree(directory, ignore_errors=True)


def _set_up(request: NodeRequest) -> Iterator[str]:
    """Yield the set-up of the agent, of the overlay, and of each engine of the node that has an environment of its
    own."""
    wheel, compiled = agent_wheel(), compiling(request.engines)
    yield _SET_UP.format(
        wheel=wheel.name,
        sha256=wheel.sha256,
        requirements=shlex.join(agent_requirements()),
        lock=AGENT_LOCK,
        trap=_TRAP,
        driver=_DRIVER.format(least=request.least_driver) if request.least_driver else "",
        compiler=_COMPILER.format(engines=" and ".join(compiled)) if request.least_driver and compiled else "",
    )
    if request.overlay is not None:
        yield _SET_UP_OVERLAY.format(
            trap=_TRAP,
            device=DEVICE,
            mtu=MTU,
            variable=KEY_VARIABLE,
            hub_key=shlex.quote(request.overlay.hub_key),
            endpoint=shlex.quote(request.overlay.endpoint),
            hub=request.overlay.hub,
            address=request.overlay.address,
        )
    for name, environment in environments(request.engines).items():
        yield _SET_UP_ENGINE.format(
            engine=name,
            variable=ENGINES[name].python_variable,
            has=shlex.join(environment.has),
            trap=_TRAP,
            python=environment.python,
            lock=environment.lock,
        )


def agent_requirements() -> tuple[str, ...]:
    """List the agent's requirements, as this distribution states them."""
    stated = importlib.metadata.requires(DISTRIBUTION) or []
    of_agent = [text for text in stated if re.search(r"extra == .agent.", text)]
    core = [text for text in stated if "extra ==" not in text and re.match(r"(msgspec|numpy|psutil)\b", text)]
    return tuple(sorted(text.partition(";")[0].strip() for text in (*core, *of_agent)))


def _assigned(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"


def _write(path: Path, content: bytes) -> None:
    new = path.with_name(f"{path.name}.{token_hex(8)}.new")  # threads of one process come at once
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)
