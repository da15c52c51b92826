"""Steps of one stage: rows in from the stage before, through the engine, rows out to the stage after."""

import time
from collections.abc import Sequence

import msgspec
import torch

from agents.edges.mesh import Mesh
from agents.engines.batch import BlockName, StepBatch, StepRequest
from agents.engines.grid_positions import GridSpan
from agents.engines.protocol import StageEngine
from agents.engines.sampling import LogitRules, RuledText, Sampling
from agents.engines.step_output import Sample
from agents.messages import to_scheduler, to_stage
from agents.messages.to_gateway import TokenLogprobs
from agents.messages.to_stage import StageEntry, StageStep
from agents.messages.to_stage_scheduler import RunSample, StageSampled
from agents.stage.given import GivenToRuns
from agents.stage.pooled_prompts import PooledPrompts, needs_rows


class StageRunner:
    """Runner of a stage's steps. Not thread-safe: the engine's thread owns it."""

    def __init__(self, engine: StageEngine, mesh: Mesh, given: GivenToRuns) -> None:
        self._engine = engine
        self._mesh = mesh
        self._pooled = PooledPrompts()
        self._given = given
        self.busy_s = 0.0
        """That the engine has spent in steps."""

    def step(self, step: StageStep) -> StageSampled | None:
        """The report of a last stage; None of others, whose rows are on their way, and where it has no request.

        Raises TransferError and EngineError: either way the instance has failed.
        """
        if not step.entries:  # of other replicas, for whom the engine computes experts
            self._engine.step(StepBatch(()), torch.empty(0))
            return None
        requests = tuple(_step_request(entry, self._given.grids(entry.run)) for entry in step.entries)
        batch = StepBatch(requests, self._given.of_step(step.entries))
        rows = self._rows(step)
        start = time.perf_counter()
        output = self._engine.step(batch, rows)
        self.busy_s += time.perf_counter() - start
        if output.hidden is not None:
            self._send(step, output.hidden)
            return None
        states = () if output.rows is None else self._pooled.take(step.entries, output.rows)
        return StageSampled(step.number, tuple(map(_run_sample, output.samples)), states)

    def free(self, run: int, kept: Sequence[int] = ()) -> None:
        self._engine.free(str(run), kept)
        self._pooled.forget(run)
        self._given.forget(run)

    def drop(self, blocks: Sequence[to_stage.BlockName]) -> None:
        self._engine.drop([BlockName(str(run), block) for run, block in blocks])

    def _rows(self, step: StageStep) -> torch.Tensor:
        """The step's input: rows of the workers before, put in the order of the entries."""
        if not self._mesh.incoming:
            return torch.tensor(step.token_ids)
        parts = _parts(step.entries, [entry.source for entry in step.entries])
        received = {source: self._mesh.incoming[source].receive(len(places)) for source, places in parts.items()}
        if len(received) == 1:
            return next(iter(received.values()))
        like = next(iter(received.values()))
        rows = torch.empty(sum(map(len, parts.values())), like.shape[1], dtype=like.dtype, device=like.device)
        for source, places in parts.items():
            rows[places] = received[source].to(like.device)
        return rows

    def _send(self, step: StageStep, hidden: torch.Tensor) -> None:
        parts = _parts(step.entries, [entry.target for entry in step.entries])
        for target, places in parts.items():
            self._mesh.outgoing[target].send(hidden if len(parts) == 1 else hidden[places])


def _parts(entries: Sequence[StageEntry], peers: Sequence[int]) -> dict[int, list[int]]:
    """Peer → the rows of the step that it sends or gets, peers and rows rising."""
    parts: dict[int, list[int]] = {peer: [] for peer in sorted(set(peers))}
    start = 0
    for entry, peer in zip(entries, peers, strict=True):
        parts[peer].extend(range(start, start + entry.tokens))
        start += entry.tokens
    return parts


def _step_request(entry: StageEntry, grids: tuple[GridSpan, ...]) -> StepRequest:
    sampling = None if entry.sampling is None else _sampling(entry.sampling)
    shared = tuple(BlockName(str(run), block) for run, block in entry.shared)
    return StepRequest(
        str(entry.run),
        entry.position,
        entry.tokens,
        sampling,
        _ruled(entry.ruled),
        grids,
        hands_out_rows=needs_rows(entry),
        shared=shared,
        draft=entry.draft,
    )


def _sampling(told: to_scheduler.Sampling) -> Sampling:
    """Stop tokens are the scheduler's matter."""
    return Sampling(told.temperature, told.top_p, told.top_k, told.seed, logprobs=told.top_logprobs)


def _ruled(told: to_stage.RuledText | None) -> RuledText | None:
    if told is None:
        return None
    return RuledText(LogitRules(*msgspec.structs.astuple(told.rules)), told.prompt, told.output)


def _run_sample(sample: Sample) -> RunSample:
    logprobs = None if sample.logprob is None else TokenLogprobs(sample.logprob, sample.alternatives)
    return RunSample(int(sample.request_id), sample.token_id, logprobs)
