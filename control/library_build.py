"""Build the library of a template source into a store, from wherever an earlier build stopped."""

import time
from collections.abc import Callable, Mapping

from templates_lib.ports.library_store import LibraryStore
from templates_lib.ports.source import Progress, TemplateSource


def build_library(
    source: TemplateSource,
    store: LibraryStore,
    progress: Progress,
    parameters: Mapping[str, float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> str:
    """The version of `source`'s library, whose missing units are built and stored one by one.

    Interrupted by anything, the units stored so far are kept and the rest is built next time. A library that is
    finished costs one query. Two builders of one library take turns; the second finds it finished. `clock` is
    monotonic, in seconds.
    """
    if (version := store.find(source.fingerprint)) is not None:
        return version
    with store.building(source, parameters or {}) as build:
        if missing := build.missing:
            before = clock()
            for batch in source.build(missing, progress):
                now = clock()
                build.add(batch, now - before)
                before = now
        return build.finish()
