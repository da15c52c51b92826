"""Memory that is lent for the time of a copy."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

Memory = Callable[[], AbstractContextManager[Sequence[memoryview]]]
"""Inside, parts that may be read or written. Raises BlobGoneError once they belong to another blob."""
