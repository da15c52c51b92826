"""The wheel that rented nodes install: this distribution, with the packages that a node runs."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DISTRIBUTION = "medley-serving"
_PACKAGES = ("agents", "policies", "templates_lib")
_WHEEL = "Wheel-Version: 1.0\nGenerator: medley\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can state: the same bytes whenever it is made."""


@dataclass(frozen=True, slots=True)
class AgentWheel:
    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@cache
def agent_wheel() -> AgentWheel:
    """Make the wheel, once a process, of the code that this control plane was started from: an installed package or a
    checkout. The same bytes for the same code. Raises ModuleNotFoundError where a package is missing."""
    about = importlib.metadata.distribution(DISTRIBUTION)
    name = f"{about.metadata['Name'].replace('-', '_')}-{about.version}"
    files = dict(_package_files())
    files[f"{name}.dist-info/METADATA"] = (about.read_text("METADATA") or about.read_text("PKG-INFO") or "").encode()
    files[f"{name}.dist-info/WHEEL"] = _WHEEL.encode()
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = "".join(f"{line}\n" for line in (*lines, f"{record},,")).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, _EPOCH)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, content)
    return AgentWheel(f"{name}-py3-none-any.whl", packed.getvalue())


def _package_files() -> Iterator[tuple[str, bytes]]:
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"the package {package} is not installed")
        root = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()


def _digest(content: bytes) -> str:
    """As wheels record it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
