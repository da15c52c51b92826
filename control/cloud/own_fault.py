"""Faults of our own machine, told from what clouds refuse: the one place where their words are read."""

import re

from control.cloud.errors import OwnFaultError

_CLOCK = re.compile(
    r"RequestTimeTooSkewed|Signature expired: |Signature not yet current|Token used too early"
    r"|Token must be a short-lived token"
)
_FAULTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        ("a package is missing", r"No module named|ModuleNotFoundError|ImportError|cannot import name"),
        (
            "names are not resolved",
            r"Name or service not known|[Nn]ame resolution|Could not resolve host|nodename nor servname|gaierror"
            r"|NameResolutionError|getaddrinfo failed|No address associated with hostname",
        ),
        ("there is no network", r"Network is unreachable|No route to host \(local\)"),
        ("a certificate is not trusted", r"CERTIFICATE_VERIFY_FAILED"),
        ("the disk is full", r"No space left on device|Disk quota exceeded"),
        ("too many files are open", r"Too many open files"),
        ("a clock is wrong", _CLOCK),
    )
)
_OF_THE_SYSTEM = re.compile(
    r"(?:builtins\.)?(?:OSError|IOError|PermissionError|FileNotFoundError|FileExistsError|NotADirectoryError"
    r"|IsADirectoryError|BlockingIOError|BrokenPipeError|ChildProcessError|ProcessLookupError|InterruptedError"
    r"|MemoryError|ImportError|ModuleNotFoundError)\b"
    r"|(?:sqlite3|sqlalchemy\.exc|subprocess)\.\w+"
)
"""Types of exceptions that come of a machine's own files, programs and memory, and of no answer of a vendor."""


def own_fault(cloud: str, text: str) -> OwnFaultError | None:
    """Return the error to raise where `text` (an exception's type and words) tells of a fault of this machine; None: it
    tells of none."""
    for what, pattern in _FAULTS:
        if (found := pattern.search(text)) is not None:
            begin = text.rfind("\n", 0, found.start()) + 1
            line = " ".join(text[begin:].partition("\n")[0].split())[:400]
            return OwnFaultError(f"{cloud}: {what} on the control plane's machine: {line}")
    return None


def wrong_clock(cloud: str, line: str) -> OwnFaultError | None:
    """The same of a vendor's refusal of credentials that were signed at another time than its own."""
    return own_fault(cloud, line) if _CLOCK.search(line) else None


def fault_inside(cloud: str, cause: str) -> OwnFaultError | None:
    """The same of the exception, its type and words, in which code of ours or of a library that we call broke off."""
    if _OF_THE_SYSTEM.match(cause) is None:
        return own_fault(cloud, cause)
    return OwnFaultError(f"{cloud}: the control plane's machine: {' '.join(cause.split())[:400]}")
