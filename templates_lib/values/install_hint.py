"""How to install what an extra of this distribution brings."""


def install_hint(extra: str) -> str:
    """Return what to do, for people. No package index has Medley yet: pip can only take it from where it lies."""
    return f"in the folder of Medley's code, run: pip install -e '.[{extra}]'"
