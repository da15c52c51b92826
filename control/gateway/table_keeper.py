"""Keeps the routing table: looks at the file, loads tokenizers, and stays with the last good one on any error."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from control.access.pepper import PepperError, peppers_of
from control.gateway.dispatcher import Dispatcher
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.published import (
    AccessKey,
    Published,
    PublishedError,
    PublishedModel,
    read_keys,
    read_published,
)
from control.gateway.slack_decision import compile_decisions
from control.gateway.tasks.apps import Apps
from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_error import TokenizerError
from control.gateway.tokenizer_source import load_tokenizer
from policies.routing import BY_SLACK
from templates_lib.graphs.component import Modality

_log = logging.getLogger(__name__)


class TableKeeper:
    def __init__(
        self,
        path: Path,
        dispatcher: Dispatcher,
        apps: Apps,
        metrics: GatewayMetrics,
        taken: Callable[[Published], None],
    ) -> None:
        """`taken` is told every table that is taken into use. Raises PepperError."""
        self.published: Published | None = None
        """The table in use; None until a good one was there."""
        self.access: dict[str, AccessKey] | None = None
        """Its keys by their ids; None: open to everybody."""
        self.peppers = peppers_of(os.environ)
        """Those that tokens may have been hashed with."""
        self._table_problem = "the routing table has not been read yet"
        self._pepper_problem = ""  # apart: the one is mended while the other stays
        self._path = path
        self._dispatcher = dispatcher
        self._apps = apps
        self._metrics = metrics
        self._taken = taken
        self._seen: tuple[int, int, int] | None = None
        self._tokenizers: dict[str, Tokenizer] = {}

    @property
    def problem(self) -> str:
        """Trouble of the last look; empty when all is well."""
        return "; ".join(each for each in (self._pepper_problem, self._table_problem) if each)

    async def watch(self, poll_s: float) -> None:
        """Look at the file for ever; no table, however odd, ends that."""
        while True:
            await asyncio.sleep(poll_s)
            try:
                await self.look()
            except Exception:
                _log.exception("looking at the routing table failed")

    async def look(self) -> None:
        """Take the file's content when it is new and good, and peppers as they are now."""
        try:
            self.peppers = peppers_of(os.environ)
            self._pepper_problem = ""
        except PepperError as error:
            if str(error) != self._pepper_problem:
                _log.error("%s; the peppers before stay in use", error)
                self._metrics.table_errors.inc()
            self._pepper_problem = str(error)
        try:
            stat = self._path.stat()
        except OSError as error:
            self._complain(f"routing table {self._path}: {error.strerror}")
            self._seen = None
            return
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            published = await asyncio.to_thread(read_published, self._path)
            await self._take(published)
        except PublishedError as error:
            # Whatever else is wrong with it, a key that was revoked is refused.
            keys = await asyncio.to_thread(read_keys, self._path)
            if keys is not None:
                self.access = {key.id: key for key in keys}
            self._complain(str(error))

    async def _take(self, published: Published) -> None:
        # A key that was revoked is refused at once, however long the tokenizers of the same table take.
        self.access = None if published.access is None else {key.id: key for key in published.access}
        problems = []
        makers = _makers(published)
        for served in published.models:
            if served.routing.id in makers:
                continue
            try:
                await self._load(served.tokenizer)
            except TokenizerError as error:
                problems.append(f"model {served.routing.id} is not served: {error}")
            except Exception as error:  # whatever its files hold, the other models are served
                _log.exception("loading the tokenizer of %s failed", served.routing.id)
                problems.append(f"model {served.routing.id} is not served: tokenizer {served.tokenizer}: {error!r}")
        if any(served.routing.policy == BY_SLACK for served in published.models):
            await asyncio.to_thread(compile_decisions)
        models = dict[str, ModelEntry]()
        for served in published.models:  # from here on nothing waits: requests see one table or the other
            tokenizer = self._tokenizers.get(served.tokenizer)
            if tokenizer is None and served.routing.id not in makers:
                continue
            try:
                models[served.routing.id] = self._entry(served, tokenizer)
            except Exception as error:
                _log.exception("model %s cannot be served", served.routing.id)
                problems.append(f"model {served.routing.id} is not served: {error!r}")
        self._dispatcher.update(published, models)
        self._apps.update(published.apps, models)
        self.published = published
        self._taken(published)
        self._metrics.table_version.set(published.version)
        _log.info("routing table version %d: %d models", published.version, len(models))
        if problems:
            self._complain("; ".join(problems))
        else:
            self._table_problem = ""

    def _entry(self, served: PublishedModel, tokenizer: Tokenizer | None) -> ModelEntry:
        entry = self._dispatcher.models.get(served.routing.id)
        if entry is None:
            return ModelEntry(served, tokenizer)
        entry.update(served, tokenizer)
        return entry

    async def _load(self, path: str) -> None:
        if path not in self._tokenizers:
            self._tokenizers[path] = await asyncio.to_thread(load_tokenizer, Path(path))

    def _complain(self, problem: str) -> None:
        if problem != self._table_problem:
            kept = "" if self.published is None else f"; version {self.published.version} stays in use"
            _log.error("%s%s", problem, kept)
            self._metrics.table_errors.inc()
        self._table_problem = problem


def _makers(published: Published) -> frozenset[str]:
    """Models that answer with sound or pictures, and need no tokenizer."""
    types = (each for app in published.apps for each in app.types.items())
    return frozenset(model for kind, model in types if not kind.endswith(f"-to-{Modality.TEXT}"))
