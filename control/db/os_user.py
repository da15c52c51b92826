"""PostgreSQL refuses to run as root: root hands its processes to an operating-system user of their own."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from control.db.errors import EmbeddedServerError

NAME = "medley-postgres"
_SEARCH = 0o001
_READ_AND_SEARCH = 0o005


@dataclass(frozen=True, slots=True)
class OsUser:
    uid: int
    gid: int


def server_user() -> OsUser | None:
    """Return the user that the server's processes run as; None: our own. As root the user is created when it is not
    there.

    Raises EmbeddedServerError where root cannot create it.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        command = ("useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/false", NAME)
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
            entry = pwd.getpwnam(NAME)
        except (OSError, subprocess.CalledProcessError, KeyError) as error:
            # Another process may have been first: then the user is there and useradd's complaint is no news.
            if NAME in (other.pw_name for other in pwd.getpwall()):
                entry = pwd.getpwnam(NAME)
            else:
                detail = getattr(error, "stderr", None) or str(error)
                msg = (
                    f"PostgreSQL does not run as root and the OS user {NAME!r} cannot be created ({detail.strip()}): "
                    f"create it, run medley as an ordinary user, or set MEDLEY_DATABASE_URL"
                )
                raise EmbeddedServerError(msg) from error
    return OsUser(entry.pw_uid, entry.pw_gid)


def grant_search(path: Path) -> None:
    """Give everybody the right to pass through (not to list) the directories above `path`, where it is missing.

    A data directory or an environment below /root is otherwise out of the server user's reach.
    """
    for directory in path.parents:
        mode = directory.stat().st_mode
        if not mode & _SEARCH:
            directory.chmod(mode & 0o7777 | _SEARCH)


def grant_read(installation: Path) -> None:
    """Give everybody the right to read and run the server's program files, where an umask took it."""
    if (installation / "bin" / "postgres").stat().st_mode & _READ_AND_SEARCH == _READ_AND_SEARCH:
        return
    for directory, _, files in os.walk(installation):
        for path in (Path(directory), *(Path(directory) / name for name in files)):
            mode = path.stat().st_mode
            # What its owner may read or run, everybody may.
            path.chmod(mode & 0o7777 | (mode >> 6 & _READ_AND_SEARCH))
