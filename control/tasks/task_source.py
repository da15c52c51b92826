"""Where the code of a task is."""

from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TaskSource:
    file: str
    """Name for messages."""
    text: str
    folder: str = ""
    """What paths in it are relative to."""


def source_of(path: Path) -> TaskSource:
    """Raises ValueError for a file that cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8; give a Python file") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; give the Python file of a task")
    return TaskSource(str(path), text, str(path.parent))


def file_and_name(given: str, folder: Path) -> tuple[TaskSource, str]:
    """Read `FILE.py:NAME`, the file relative to `folder`. Raises ValueError for anything else."""
    file, _, name = given.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise ValueError(f"{given}: is no task; write FILE.py:NAME, or the name of one of `medley tasks list`")
    return source_of(folder / file), name
