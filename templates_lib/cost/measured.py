"""The measured cost model: coefficients fitted on the nodes themselves, with an estimate for what was not measured."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from templates_lib.cost.chosen import ChosenCostModel
from templates_lib.cost.stage_step import per_replica
from templates_lib.cost.step_terms import step_terms
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, GpuPart, NodeStep, Parallel, StageCostModel
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile


class MeasuredCostModel:
    """A `StageCostModel` of one engine. Measured beats estimated wherever there is a profile."""

    def __init__(self, engine: str, profiles: Iterable[NodeProfile], otherwise: StageCostModel) -> None:
        """Profiles of other engines are left out; of two of one key the later counts."""
        self._engine = engine
        own = [profile for profile in profiles if profile.engine == engine]
        self._profiles = {profile.key: profile for profile in own}
        self._of_gpus = {
            (profile.model, profile.dtype, _gpu_of(profile), profile.tensor_parallel): profile
            for profile in own
            if profile.has_gpu
        }
        """By model, data type, GPU and how many of it layers were cut over by heads."""
        self._otherwise = otherwise

    @property
    def source(self) -> str:
        return "measured" if self._profiles else self._otherwise.source

    @property
    def fingerprint(self) -> str:
        if not self._profiles:
            return self._otherwise.fingerprint
        known = [self._profiles[key] for key in sorted(self._profiles)]
        text = msgspec.json.encode([self._otherwise.fingerprint, known], order="sorted")
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def unmeasured_source(self, model: ModelSpec, node: NodeConfig) -> str:
        """Source of times of `model` on `node` as long as nobody measures them there (on one GPU of it)."""
        if isinstance(self._otherwise, ChosenCostModel):
            return self._otherwise.of(model, node, Parallel()).source
        return self._otherwise.source

    def profile(self, model: ModelSpec, node: NodeConfig) -> NodeProfile | None:
        """Return the profile that times of `model` on `node` rest on; None where they rest on the estimate."""
        profile = self._profiles.get((self._engine, model.id, model.dtype, node.id))
        return profile if profile is not None and profile.tensor_parallel == node.gpu_count else None

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """See `StageCostModel`: layers cut by heads over all of the node's GPUs, and replicas that are each cut over as
        many as a node of fewer such GPUs was measured with."""
        if self.profile(model, node) is None:
            return ()
        counts = [count for count in range(node.gpu_count, 0, -1) if node.gpu_count % count == 0]
        ways = [Parallel(tp=count, dp=node.gpu_count // count) for count in counts]
        return tuple(way for way in ways if self._measured(model, node, way) is not None)

    def stage_seconds(
        self,
        model: ModelSpec,
        node: NodeConfig,
        parallel: Parallel,
        step: NodeStep,
        *,
        head: bool,
        part: GpuPart = WHOLE_GPU,
    ) -> Floats:
        """See `StageCostModel`. A profile is of one split; a node's replicas compute apart from each other, and what is
        beside computing is of one scheduler for all of them. Other splits rest on the estimate.

        Steps were measured by an engine alone, which had all of the node; what is beside computing keeps no more than
        one processor busy. Parts of a profiled node are parts of its processors' time, as a quota gives them; what of
        its memory others use makes all of a step slower, as nobody measured which part of it waits for memory.
        """
        profile = self._measured(model, node, parallel)
        if profile is None:
            return self._otherwise.stage_seconds(model, node, parallel, step, head=head, part=part)
        engine = engine_seconds(profile.step_terms_s, _of_replica(step, parallel.dp), head=head)
        cost, rows = profile.pipeline, step.prompt_tokens + step.decode_requests
        beside = cost.step_cpu_s + cost.row_cpu_s * rows + cost.request_cpu_s * step.decode_requests
        # Of the prompts of a step one, as a rule; caches are warm for more.
        beside = beside + cost.prompt_cpu_s * np.minimum(step.prompt_tokens, 1.0)
        free = _free_cores(profile)
        computing = engine * (profile.cpu_cores / free) / (part.compute * part.bandwidth)
        return np.asarray(computing + beside / min(1.0, free))

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        """Seconds of a hop. On a profiled node without a GPU only the wait counts: its processor's share of a hop is
        part of the step."""
        profile = self.profile(model, node)
        if profile is not None and profile.pair is not None:
            return profile.pair.hop_seconds(tokens)
        if profile is None or profile.has_gpu:
            return self._otherwise.hop_seconds(model, node, tokens)
        return np.full_like(tokens, profile.pipeline.hop_wait_s, dtype=np.float64)

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        profile = self.profile(model, node)
        if profile is not None and profile.pair is not None:
            return profile.pair.kv_bytes_per_s
        if profile is None or profile.has_gpu:
            return self._otherwise.transfer_bytes_per_s(model, node)
        return min(1.0, _free_cores(profile)) / profile.hand_off.cpu_s_per_byte

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        """See `StageCostModel`. Links have threads of their own on the processors that the engine computes with, where
        it computes with those."""
        profile = self.profile(model, node)
        if profile is None or profile.has_gpu:
            return self._otherwise.hand_off_s_per_byte(model, node)
        cost, free = profile.hand_off, _free_cores(profile)
        return cost.send_cpu_s_per_byte / free, cost.take_cpu_s_per_byte / free

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> float | None:
        profile = self.profile(model, node)
        return None if profile is None or profile.has_gpu else profile.cpu_cores

    def _measured(self, model: ModelSpec, node: NodeConfig, parallel: Parallel) -> NodeProfile | None:
        """Return the profile of each replica of a split; None for a split that was not measured, or of a node that was
        not."""
        whole = self.profile(model, node)
        if whole is None or parallel.pp > 1 or parallel.ep > 1 or parallel.tp * parallel.dp != node.gpu_count:
            return None
        return whole if parallel.dp == 1 else self._of_gpus.get((model.id, model.dtype, node.gpu, parallel.tp))


def engine_seconds(step_terms_s: Mapping[str, float], step: NodeStep, *, head: bool) -> Floats:
    """Seconds of a step in the engine alone, by the seconds of each term."""
    terms = step_terms(step, head=head)
    # A profile that is older than a term has it in the others.
    return sum((step_terms_s.get(name, 0.0) * terms[name] for name in terms), np.zeros(()))


def _of_replica(step: NodeStep, replicas: int) -> NodeStep:
    """A step of the fullest of a node's replicas."""
    if replicas == 1:
        return step
    prompts, requests = (per_replica(total, replicas) for total in (step.prompt_tokens, step.decode_requests))
    return replace(step, prompt_tokens=prompts, decode_requests=requests)


def _gpu_of(profile: NodeProfile) -> str:
    return profile.config.partition(":")[0]


def _free_cores(profile: NodeProfile) -> float:
    """Cores that waiting leaves of the node: half of them at least, so that any share has something to compute with."""
    return max(profile.cpu_cores - profile.pipeline.waiting_cores, profile.cpu_cores / 2)
