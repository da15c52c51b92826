"""A Dockerfile as a list of stages, and its steps carried out in a bare Debian root: no container engine is needed."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

_HOSTS_OWN = re.compile(r"(?i)^(pip_(?!find_links)|npm_config_|https?_proxy|no_proxy)")
"""How this machine reaches registries of packages, as `docker build` would take it from its configuration."""
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    base: str
    name: str
    instructions: tuple[Instruction, ...]


def stages(file: Path) -> list[Stage]:
    """In order; the global ARGs, which come before them, are left out."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    found: list[tuple[str, str, list[Instruction]]] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.strip().partition(" ")
        if name == "FROM":
            base, _, alias = text.partition(" AS ")
            found.append((base, alias, []))
        elif name and found:
            found[-1][2].append(Instruction(name, text.strip()))
    return [Stage(base, alias, tuple(instructions)) for base, alias, instructions in found]


@dataclass(slots=True)
class Root:
    """A directory that holds a system."""

    path: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    folder: str = "/"
    user: str = "0:0"

    def command(self, *arguments: str, **more: str) -> list[str]:
        """Runs them inside, in a mount namespace of their own, so that nothing stays mounted."""
        variables = [f"{name}={value}" for name, value in (self.environment | more).items()]
        enter = ["chroot", f"--userspec={self.user}", str(self.path), "env", "-i", f"--chdir={self.folder}", *variables]
        mounts = f'mount -t proc proc "{self.path}/proc" && mount --rbind /dev "{self.path}/dev" && exec "$@"'
        return ["unshare", "--mount", "--fork", "sh", "-c", mounts, "sh", *enter, *arguments]

    def run(self, *arguments: str, timeout_s: float = 900, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, **more), capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def build(self, stage: Stage, context: Path, built: Mapping[str, Future["Root"]]) -> "Root":
        """What `docker build` does for the stage, whose copies wait for the stages that they are from; raises
        AssertionError with the output of a step that fails."""
        hosts = {name: value for name, value in os.environ.items() if _HOSTS_OWN.match(name)}
        if _CERTIFICATES.exists():
            shutil.copy(_CERTIFICATES, self.path / "run" / "certificates.crt")
            names = "PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE"
            hosts |= dict.fromkeys(names, "/run/certificates.crt")
        shutil.copy("/etc/resolv.conf", self.path / "etc" / "resolv.conf")
        for step in stage.instructions:
            match step.name:
                case "RUN":
                    done = self.run("sh", "-c", step.text, DEBIAN_FRONTEND="noninteractive", **hosts)
                    assert done.returncode == 0, f"RUN {step.text}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
                case "COPY":
                    self._copy(step, context, built)
                case "ENV":
                    self.environment |= dict(word.split("=", 1) for word in step.words)
                case "WORKDIR":
                    self.folder = step.text
                    (self.path / step.text.lstrip("/")).mkdir(parents=True, exist_ok=True)
                case "USER":
                    self.user = step.text
        return self

    def _copy(self, step: Instruction, context: Path, built: Mapping[str, Future["Root"]]) -> None:
        *sources, target = (word for word in step.words if not word.startswith("--"))
        given = (word.removeprefix("--from=") for word in step.words if word.startswith("--from="))
        origin = next((built[name].result().path for name in given), context)
        to = self.path / (Path(self.folder) / target).as_posix().lstrip("/")
        for source in sources:
            found = origin / source.lstrip("/")
            into = to / found.name if target.endswith("/") else to
            if origin != context:  # of which nothing is changed afterwards
                into.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "--archive", "--link", "--no-target-directory", found, into], check=True)
            elif found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "node_modules", "bundle", "generated")
                shutil.copytree(found, into, symlinks=True, ignore=ignored)
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, into)
