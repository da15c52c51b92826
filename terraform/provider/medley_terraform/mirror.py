"""A filesystem mirror with the provider in it, as `terraform init` installs it from.

The package carries what the provider is made of and runs on the Python that is there, of the version that it was built
with. Nothing is written into it later: Terraform compares it with the hash in the lock file at every start.
"""

import compileall
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from medley_terraform import VERSION

SOURCE = "registry.terraform.io/medley/medley"
_LAUNCHER = """#!/bin/sh
# Finds the Python that this package was built for, and runs the provider on it, isolated (-I): no variable of PYTHON's
# says what it imports. Without its site (-S): hooks of that Python, which some set to patch certificates, must not
# write into this package.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 1
for python in ${{MEDLEY_TERRAFORM_PYTHON:+"$MEDLEY_TERRAFORM_PYTHON"}} python{version} python3 python; do
    if "$python" -I -S -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2> /dev/null; then
        exec "$python" -I -S -B -c '{start}' "$here/lib" "$@"
    fi
done
# Terraform shows the first line of standard output.
echo "terraform-provider-medley needs Python {version}: install it, or name it in MEDLEY_TERRAFORM_PYTHON"
exit 1
"""
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from medley_terraform.__main__ import main; main()"
_SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_MADE = (1980, 1, 1, 0, 0, 0)
"""One time for all files, so that one build has one hash."""


def lay_out(folder: Path) -> Path:
    """Makes the archive, in the packed layout: FOLDER/HOST/NAMESPACE/TYPE/terraform-provider-…zip. Raises OSError,
    subprocess.CalledProcessError when the provider cannot be installed."""
    target = f"{_SYSTEMS[platform.system()]}_{_MACHINES[platform.machine().lower()]}"
    archive = folder / SOURCE / f"terraform-provider-medley_{VERSION}_{target}.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        package = Path(made)
        _install(package / "lib")
        launcher = package / f"terraform-provider-medley_v{VERSION}"
        launcher.write_text(_LAUNCHER.format(version=f"{sys.version_info[0]}.{sys.version_info[1]}", start=_START))
        launcher.chmod(0o755)
        _zip(package, archive)
    return archive


def _install(lib: Path) -> None:
    """Copy what this environment has: the very versions that were tested. pip runs isolated, since what PYTHONPATH
    adds is not of it."""
    import medley_terraform

    pip = (sys.executable, "-I", "-m", "pip")
    requirements = subprocess.run(
        (*pip, "freeze", "--exclude", "medley-terraform", "--exclude-editable"),
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    listed = lib.parent / "requirements.txt"
    listed.write_text(requirements)
    command = (
        sys.executable,
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        str(lib),
    )
    subprocess.run((*command, "--disable-pip-version-check", "-r", str(listed)), check=True)
    listed.unlink()
    shutil.rmtree(lib / "bin", ignore_errors=True)
    own = Path(medley_terraform.__file__).parent
    shutil.copytree(own, lib / own.name, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(
        lib, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, stripdir=str(lib)
    )


def _zip(package: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted(each for each in package.rglob("*") if each.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(package)), _MADE)
            entry.external_attr = (path.stat().st_mode & 0xFFFF) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(entry, path.read_bytes())
