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
    close = difflib.get_close_matches(name.casefold(), list(names), n=3, cutoff=0.6)
    if close:
        # Equally near names, such as us-east-1 and us-west-1 to us-est-1, are all said.
        far = [difflib.SequenceMatcher(None, folded, name.casefold()).ratio() for folded in close]
        return f"did you mean {' or '.join(repr(names[c]) for c, r in zip(close, far, strict=True) if r == far[0])}?"
    listed = sorted(names.values())
    return f"valid: {', '.join(listed[:12])}" + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
