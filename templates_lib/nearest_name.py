"""The hint that ends an "unknown name" message."""

import difflib
from collections.abc import Iterable


def nearest_name(name: str, valid: Iterable[str]) -> str:
    """The nearest of `valid`, else all of them (at most 12)."""
    names = {n.casefold(): n for n in valid}
    # "A100" means A100-40 or A100-80, although V100 is nearer in letters.
    longer = sorted(n for folded, n in names.items() if name and folded.startswith(name.casefold()))
    if longer:
        return f"did you mean {' or '.join(repr(n) for n in longer[:4])}?"
    close = difflib.get_close_matches(name.casefold(), list(names), n=1, cutoff=0.5)
    if close:
        return f"did you mean {names[close[0]]!r}?"
    listed = sorted(names.values())
    return f"valid: {', '.join(listed[:12])}" + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
