"""What a process of users' code is kept from."""

import ctypes
import os

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
"""CLONE_NEWUSER and CLONE_NEWNET of linux/sched.h."""


def isolated(*, network: bool) -> bool:
    """Take from this process, for good, the rights of root, where it has them, and, without `network`, the network: it
    gets one of its own in which there is nothing. Tell whether it has none; where the system does not let it go, it is
    as it was."""
    if network:
        _unshared(_NEW_USER)
        return False
    # Some systems refuse namespaces of users; root may leave the network all the same.
    return _unshared(_NEW_USER | _NEW_NETWORK) or (os.geteuid() == 0 and _unshared(_NEW_NETWORK))


def _unshared(flags: int) -> bool:
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):  # no Linux
        return False
