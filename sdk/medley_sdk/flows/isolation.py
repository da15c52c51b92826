"""What a process of users' code is kept from."""

import ctypes
import os

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
"""CLONE_NEWUSER and CLONE_NEWNET of linux/sched.h."""


def without_network() -> bool:
    """Put this process, for good, into a network of its own in which there is nothing. False: the system does not let
    it, and the network is as it was."""
    wanted = _NEW_NETWORK if os.geteuid() == 0 else _NEW_USER | _NEW_NETWORK
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(wanted) == 0)
    except (OSError, AttributeError):  # no Linux
        return False
