"""Pipeline templates (Coral, section 4.2): every node set of a model with its best placement."""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate
from queue import SimpleQueue
from threading import Event
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.apps.served_phases import phases_refused
from templates_lib.placement_solver.patterns import MOST_NODES
from templates_lib.ports.cost_model import StageCostModel
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.sources.enumeration import NodeSets, node_sets
from templates_lib.sources.pipeline_record import KIND, VERSION, ClassCertificate, PipelineRecord
from templates_lib.throughput.request import own_shares
from templates_lib.throughput.search import PLATEAU
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.engine_limits import most_nodes
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.placement import FULLEST
from templates_lib.values.template import Software
from templates_lib.values.throughput_table import StageRole, ThroughputTable
from templates_lib.values.work import Phase, WorkClass

WAITING = "pools of prefill that compute in 0.65 of the time, decode in turns behind streamed hand-offs; 0.8 alone"
"""Name of the laws of `templates_lib.throughput.waiting`: another one for every change to what they give."""
WORTH_ANOTHER = 0.05
"""Share of a node's throughput for which its template is of another engine than the preferred one: step times of two
engines are not known so well that less would tell them apart."""
TICKS = 60
"""Steps of an uneven split: sixtieths of the objective hold every even split over up to six stages."""

ProgressEvent = tuple[str, int, int]


class _StoppedError(Exception):
    """The build was abandoned."""


class PipelineTemplateSource:
    """A `TemplateSource` with one unit of work per work class (model and phase).

    `zone_bags` are sets of configuration ids that one zone offers together, `gpus` the GPUs by name, `cost_models` the
    step times by engine, `starts` the configurations (ids) that some cloud sells which starts an engine: of a model
    that is planned only where it is started, templates are made on those alone. `partly`: those of them that other
    clouds sell too, which do not start it. `n_max` nodes at most, of GPU memory at most `rho` × the weights as served.
    With `even_split` each of S stages has 1 / S of the objective; without, the split is chosen too, in sixtieths.
    Templates of the models `unpruned` (by name) are all kept: a guardrail that counts instances needs that. Raises
    ValueError for what no build could use.
    """

    kind = KIND

    def __init__(
        self,
        served: Sequence[ServedModel],
        configs: Sequence[NodeConfig],
        gpus: Mapping[str, Gpu],
        cost_models: Mapping[str, StageCostModel],
        *,
        n_max: int,
        rho: float,
        zone_bags: Sequence[frozenset[str]],
        even_split: bool = True,
        unpruned: frozenset[str] = frozenset(),
        starts: Mapping[str, Collection[str]] = MappingProxyType({}),
        partly: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._served = tuple(served)
        self._nodes = tuple(configs)
        self._gpus = dict(gpus)
        engines = {each.engine for served in self._served for each in served.by_engine()}
        self._cost_models = {engine: cost_models[engine] for engine in sorted(engines)}
        self.engines = tuple(self._cost_models)
        self._starts = {engine: frozenset(starts.get(engine, ())) for engine in self.engines}
        self._partly = {engine: frozenset(partly.get(engine, ())) for engine in self.engines}
        self._n_max, self._rho = n_max, rho
        self._zone_bags = tuple(sorted(zone_bags, key=sorted))
        self._even_split = even_split
        self._unpruned = unpruned
        self._check()
        self.configs = tuple(c.id for c in self._nodes)
        self.classes: tuple[WorkClass, ...] = tuple(w for s in self._served for w in s.work_classes())
        self.cost_model_fingerprint = _together([m.fingerprint for _, m in sorted(self._cost_models.items())])
        self._works = {s.class_id(phase): (s, phase) for s in self._served for phase in s.phases}

    def _check(self) -> None:
        """Raise ValueError for what no build could use."""
        if not 1 <= self._n_max <= MOST_NODES:
            raise ValueError(f"n_max is {self._n_max}: a template may have 1 to {MOST_NODES} nodes")
        if not 0 < self._rho < math.inf:
            raise ValueError(f"rho is {self._rho}: it multiplies a model's size, so give a positive number such as 12")
        names = [s.name for s in self._served]
        if len(set(names)) < len(names):
            raise ValueError(f"models are served under the same name: {', '.join(sorted(names))}")
        for served in self._served:
            if why := phases_refused(served):
                raise ValueError(why)
        for name in sorted(self._unpruned - set(names)):
            raise ValueError(f"no model {name!r} is served; {nearest_name(name, names)}")
        for config in self._nodes:
            if config.gpu not in self._gpus:
                hint = nearest_name(config.gpu, self._gpus)
                raise ValueError(f"node configuration {config.id!r} has an unknown GPU {config.gpu!r}; {hint}")

    @property
    def fingerprint(self) -> str:
        content: dict[str, Any] = {
            "record": VERSION,
            "served": [_held(served) for served in self._served],
            "configs": self._nodes,
            "gpus": [self._gpus[name] for name in sorted({c.gpu for c in self._nodes})],
            "cost_model": self.cost_model_fingerprint,
            "engines": {name: support_of(name) for name in self._cost_models},
            "zone_bags": [sorted(bag) for bag in self._zone_bags],
            "plateau": PLATEAU,
            "decode_groups": "once a budget",
            "ids": "by the name served as",
            "windows": "no room saved",
            "fullest": FULLEST,
            "memory": "copies of KV heads, ends in each part",
            "templates": "with their engine",
            "limits": (self._n_max, self._rho, self._even_split, sorted(self._unpruned)),
        }
        if any(served.only_where_started for served in self._served):
            content["starts"], content["partly"] = self._starts, self._partly
        if any(served.slo.queueing for served in self._served):
            content["waiting"] = WAITING
        encoded = msgspec.json.encode(content, enc_hook=_plain, order="sorted")
        return hashlib.blake2b(encoded, digest_size=16).hexdigest()

    def _sets(self, served: ServedModel) -> NodeSets:
        n_max = most_nodes(support_of(served.engine), self._n_max)
        return node_sets(served.model, self._nodes, self._gpus, self._zone_bags, n_max, self._rho)

    def units(self) -> tuple[str, ...]:
        return tuple(self._works)

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        """The batches of `units` as they are finished, one unit a core, large models first.

        Abandoning the iterator (Ctrl-C too) stops the work within a few hundredths of a second. Raises ValueError for
        an unknown unit.
        """
        for unit in units:
            if unit not in self._works:
                raise ValueError(f"no unit of work {unit!r}; {nearest_name(unit, self._works)}")
        events: SimpleQueue[TemplateBatch | ProgressEvent | Exception] = SimpleQueue()
        stopped = Event()
        largest_first = sorted(units, key=lambda unit: -self._works[unit][0].model.weight_bytes)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            try:
                for unit in largest_first:
                    pool.submit(self._run, unit, events, stopped)
                left = len(units)
                while left:
                    event = events.get()
                    if isinstance(event, Exception):
                        raise event
                    if isinstance(event, TemplateBatch):
                        left -= 1
                        yield event
                    else:
                        progress(*event)
            finally:
                stopped.set()
                pool.shutdown(cancel_futures=True)

    def work_class_of(self, record: bytes) -> str:
        """Return the work class that a template of this kind was made for; empty: none of these classes, by the same
        software."""
        found = msgspec.msgpack.decode(record, type=PipelineRecord).certificate
        served, phase = self._works.get(found.work_class, (None, None))
        by_it = None if served is None else served.under(found.software.engine)
        if by_it is None or phase is None or self._certificate(by_it, phase).software != found.software:
            return ""
        return found.work_class

    def engine_of(self, record: bytes) -> str:
        """Return the engine of a template of one of these classes."""
        return msgspec.msgpack.decode(record, type=PipelineRecord).certificate.software.engine

    def recertified(self, record: bytes) -> tuple[bytes, float] | None:
        """The record of a template of one of these classes, and what it sustains under the objective of today. None:
        it cannot keep it, or one of its nodes is not known any more."""
        from templates_lib.throughput.phases import node_phases
        from templates_lib.throughput.recertify import sustained_units_per_s

        found = msgspec.msgpack.decode(record, type=PipelineRecord)
        before, (whole, phase) = found.certificate, self._works[found.certificate.work_class]
        served = whole.under(before.software.engine)
        if served is None:
            return None
        now = self._certificate(served, phase)
        units_per_s = found.units_per_s
        if now != before:
            phases = node_phases(served, phase, self._gpus, self._cost_models[served.engine])
            stages = found.placed()
            try:
                configs = {n.config: self._config(n.config) for stage in stages for n in stage.nodes}
            except LookupError:
                return None
            units_per_s = sustained_units_per_s(phases, stages, configs, even_split=self._even_split)
        if now.is_tighter_than(before):
            units_per_s = min(units_per_s, found.units_per_s)
        if units_per_s <= 0:
            return None
        again = msgspec.structs.replace(found, certificate=now, units_per_s=units_per_s)
        return msgspec.msgpack.encode(again), units_per_s

    def _config(self, name: str) -> NodeConfig:
        """Find a configuration, also one that is not on offer any more. Raises LookupError."""
        return next((node for node in self._nodes if node.id == name), None) or node_config_from_id(name)

    def _run(self, unit: str, events: "SimpleQueue[TemplateBatch | ProgressEvent | Exception]", stopped: Event) -> None:
        def advance(done: int, total: int) -> None:
            if stopped.is_set():
                raise _StoppedError
            events.put((unit, done, total))

        try:
            events.put(self._build_unit(unit, advance))
        except _StoppedError:
            return
        except Exception as error:
            # Whatever it is: the thread that asked for the build shall raise it.
            events.put(error)

    def _build_unit(self, unit: str, advance: Callable[[int, int], None]) -> TemplateBatch:
        # Planning reads templates back and needs no compiler: its import costs half a second.
        from templates_lib.placement_solver.search import find_placements
        from templates_lib.sources.pipeline_batch import joined_batch, pipeline_batch

        served, phase = self._works[unit]
        engines = served.by_engine()
        sets = [self._sets(each) for each in engines]
        before = [0, *accumulate(each.size for each in sets)]
        advance(0, before[-1])
        for share in own_shares(served, phase):
            tables = [self._table(each, phase, share) for each in engines]
            elsewhere = served_elsewhere(tables, [self._is_partly_started(each) for each in engines])
            found = [
                find_placements(
                    table.units_per_s,
                    of_engine,
                    even_split=self._even_split,
                    prune=served.name not in self._unpruned,
                    elsewhere=others,
                    advance=partial(_advanced, advance, first, before[-1]),
                )
                for table, of_engine, others, first in zip(tables, sets, elsewhere, before, strict=False)
            ]
            if any(each.possible for each in found):
                break
        class_index = list(self._works).index(unit)
        return joined_batch(
            pipeline_batch(
                placed, of_engine, table, self._certificate(each, phase), class_index, self.engines.index(each.engine)
            )
            for placed, of_engine, table, each in zip(found, sets, tables, engines, strict=True)
        )

    def _table(self, served: ServedModel, phase: Phase, share: float) -> ThroughputTable:
        """Nodes sustain nothing under an engine that none of their clouds starts."""
        cost_model, budgets_ms = self._cost_models[served.engine], self._budgets_ms(share * served.slo_ms(phase))
        table = throughput_table(served, phase, self._nodes, self._gpus, cost_model, budgets_ms)
        if not served.only_where_started:
            return table
        starts = np.array([node.id in self._starts[served.engine] for node in self._nodes], dtype=np.bool_)
        return replace(table, units_per_s=np.where(starts[None, None, :, None], table.units_per_s, 0.0))

    def _is_partly_started(self, served: ServedModel) -> NDArray[np.bool_]:
        """(C,) whether some cloud that sells the node does not start the model's engine."""
        partly = self._partly[served.engine] if served.only_where_started else ()
        return np.array([node.id in partly for node in self._nodes], dtype=np.bool_)

    def _budgets_ms(self, slo_ms: float) -> tuple[float, ...]:
        return even_budgets(slo_ms, self._n_max) if self._even_split else uneven_budgets(slo_ms, TICKS)

    def _certificate(self, served: ServedModel, phase: Phase) -> ClassCertificate:
        model, served_as = served.model, served.name if served.name != served.model.id else ""
        return ClassCertificate(
            Software(model.id, model.revision, model.dtype, served.engine, served.dispatch, served_as),
            served.class_id(phase),
            served.shape.id,
            served.slo_ms(phase),
            served.slo.percentile,
            self._cost_models[served.engine].fingerprint,
            served.slo.queueing,
        )


def _advanced(advance: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    advance(before + done, total)


def _held(served: ServedModel) -> dict[str, Any]:
    """All that templates depend on: what the checkpoint was before its engine loaded it is not part of that, nor what
    requests bring beside their prompts."""
    content: dict[str, Any] = msgspec.to_builtins(served, enc_hook=_plain)
    del content["shape"]["units"]
    for each in (content, *content["others"]):
        del each["model"]["stored"]
    return content


def served_elsewhere(
    tables: Sequence[ThroughputTable], partly: Sequence[NDArray[np.bool_]]
) -> list[NDArray[np.float64]]:
    """For each engine's table, that of the preferred one first: (C,) units/s that a node of each configuration sustains
    with the whole model, where templates of such a node are of another engine; else 0. They are of the engine that
    serves most there, as far as it serves more than the preferred one by `WORTH_ANOTHER`. `partly`, by engine: (C,)
    where some cloud that sells the node does not start it; there templates are of each engine, for each cloud its own.
    """
    alone = np.array([table.units_per_s[StageRole.ONLY, :, :, -1].max(axis=0) for table in tables])
    handicap = np.array([1.0] + [1 + WORTH_ANOTHER] * (len(tables) - 1))
    most = (alone / handicap[:, None]).argmax(axis=0)
    served = np.take_along_axis(alone, most[None, :], axis=0)[0]
    served = np.where(np.take_along_axis(np.array(partly), most[None, :], axis=0)[0], 0.0, served)
    return [np.where(most == engine, 0.0, served) for engine in range(len(tables))]


def _together(fingerprints: Sequence[str]) -> str:
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.blake2b("/".join(fingerprints).encode(), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    """Convert values that msgspec does not encode by itself: arrays, read-only mappings, and what holds some."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise TypeError(f"cannot fingerprint a {type(value).__name__}")


def even_budgets(slo_ms: float, max_stages: int) -> tuple[float, ...]:
    """SLO / S for S = 1 .. `max_stages`, in that order (Coral, section 4.2): index S - 1 is for S stages."""
    return tuple(slo_ms / stages for stages in range(1, max_stages + 1))


def uneven_budgets(slo_ms: float, ticks: int) -> tuple[float, ...]:
    """q / Q · SLO for q = 1 .. Q = `ticks`: stages whose ticks add up to Q keep the objective."""
    return tuple(slo_ms * tick / ticks for tick in range(1, ticks + 1))
