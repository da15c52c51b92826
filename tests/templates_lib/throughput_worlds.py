"""Small worlds for T̂ tests: an analytic roofline as cost model, toy models and GPUs, and an independent check."""

from dataclasses import dataclass

import numpy as np

from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.estimated import usable_bytes_per_s
from templates_lib.cost.shared_gpu import part_of
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.model_spec import ExpertSpec, ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, GpuPart, NodeStep, Parallel
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.slo import Slo
from templates_lib.values.throughput_table import StageRole, ThroughputTable
from templates_lib.values.work import Phase


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds = fixed + layers · max(compute, weights) + KV reads + reductions: non-decreasing in all of a step."""

    gpus: dict[str, Gpu]
    step_s: float = 2e-4
    hand_off: tuple[float, float] = (0.0, 0.0)
    source: str = "measured"
    fingerprint: str = "roofline"

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
        gpu = part_of(self.gpus[node.gpu], part)
        flops_per_s, bytes_per_s = gpu.peak_bf16_tflops * 1e12 * parallel.tp, gpu.hbm_bytes_per_s * parallel.tp
        prompts, requests = step.prompt_tokens / parallel.dp, step.decode_requests / parallel.dp
        rows = prompts + requests
        active = model.attention_weight_bytes + model.ffn_weight_bytes * (
            model.experts.active / model.experts.count if model.experts else 1.0
        )
        weights = np.maximum(rows * active / flops_per_s, active / bytes_per_s)
        kv = model.kv_bytes_per_token_per_layer * (prompts * step.prompt_context / 64 + requests * step.decode_context)
        reduce = 0.0
        if parallel.tp > 1:
            reduce = 2e-5 + rows * model.hidden_size * 4 / (node.intra_node_gbps * 1e9 / 8)
        seconds = self.step_s + step.layers * (weights + kv / bytes_per_s + reduce)
        if head:
            finished = requests + np.minimum(prompts, 1.0)
            seconds = seconds + np.maximum(
                finished * model.head_weight_bytes / flops_per_s, model.head_weight_bytes / bytes_per_s
            )
        return np.asarray(seconds)

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """See `StageCostModel`."""
        del model, node
        return ()

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        return np.asarray(5e-5 + tokens * model.hidden_size * 2.0 / (node.network_gbps * 1e9 / 8 * 0.9))

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> None:
        del model, node

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        del model, node
        return self.hand_off

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        del model
        return usable_bytes_per_s(node)


def gpu(name: str, *, memory_gib: float = 24.0, tflops: float = 100.0, hbm_gbps: float = 8000.0) -> Gpu:
    return Gpu(name, "nvidia", "8.9", ("bf16", "fp16"), memory_gib, tflops, 0.0, hbm_gbps, "test")


def node(gpu_name: str = "G", count: int = 1, *, network: float = 25.0, intra: float = 200.0) -> NodeConfig:
    return NodeConfig(config_id(gpu_name, count, network), gpu_name, count, intra, network, 100.0)


def model(
    layers: int = 8,
    *,
    hidden: int = 2048,
    kv_heads: int = 4,
    windows: tuple[int, ...] | None = None,
    experts: ExpertSpec | None = None,
    tied: bool = False,
    vocab: int = 50_000,
) -> ModelSpec:
    ffn = 3 * hidden * (experts.count * experts.intermediate_size if experts else 4 * hidden) * 2.0
    return ModelSpec(
        id="toy",
        revision="r1",
        layers=layers,
        hidden_size=hidden,
        attention_heads=16,
        kv_heads=kv_heads,
        head_dim=128,
        intermediate_size=0 if experts else 4 * hidden,
        vocab_size=vocab,
        tied_embeddings=tied,
        dtype="bf16",
        activation_dtype="bf16",
        kv_dtype="bf16",
        attention_weight_bytes=4 * hidden * hidden * 2.0,
        ffn_weight_bytes=ffn,
        embedding_weight_bytes=vocab * hidden * 2.0,
        windows=windows or (0,) * layers,
        experts=experts,
    )


def shape(prompts: list[int] | None = None, outputs: list[int] | None = None) -> WorkloadShape:
    prompt, output = prompts or [200, 600, 1000, 3000], outputs or [150, 100, 300, 250]
    return WorkloadShape("shape", np.array(prompt, dtype=np.int32), np.array(output, dtype=np.int32))


def served(
    spec: ModelSpec | None = None,
    *,
    ttft_ms: float = 2000.0,
    tpot_ms: float = 60.0,
    lengths: WorkloadShape | None = None,
    percentile: float = 99.0,
) -> ServedModel:
    slo = Slo(ttft_ms, tpot_ms, percentile=percentile)
    return ServedModel("toy", spec or model(), slo, lengths or shape(), aggregated=True)


def broken_promises(
    sm: ServedModel,
    phase: Phase,
    table: ThroughputTable,
    config: NodeConfig,
    cost: Roofline,
    cell: tuple[int, int, int, int],
) -> list[str]:
    """What cell (role, budget, config, layers - 1) promises and does not keep; written without the package's code."""
    spec, lengths = sm.model, sm.shape
    role, j, rate = StageRole(cell[0]), cell[3] + 1, float(table.units_per_s[cell])
    tp, dp, pp, ep = (int(a[cell]) for a in (table.tp, table.dp, table.pp, table.ep))
    batch, chunk = float(table.batch_cap[cell]), float(table.chunk_tokens[cell])
    alone, alone_s, budget = role is StageRole.ONLY, 0.0, table.budgets_ms[cell[1]] / 1000
    broken = []
    if tp * dp * pp != config.gpu_count or pp > j or (tp * dp) % ep:
        broken.append(f"split {tp} {dp} {pp} {ep}")

    def seconds(prompt_tokens: float, context: float, requests: float) -> float:
        step = NodeStep(*(np.array(float(x)) for x in (j, prompt_tokens, context, requests, lengths.decode_context)))
        head = role in (StageRole.LAST, StageRole.ONLY)
        return float(cost.stage_seconds(spec, config, Parallel(tp, dp, pp, ep), step, head=head))

    hop = 0.0 if alone else float(cost.hop_seconds(spec, config, np.array(batch + chunk)))
    longest = lengths.prompt_percentile(sm.slo.percentile)
    net = 0.7 * config.network_gbps * 1e9 / 8
    kv = spec.kv_bytes_per_token_per_layer
    prompt, output = lengths.prompt_tokens.astype(float), lengths.output_tokens.astype(float)
    o, p = output.mean(), prompt.mean()

    def worst(layer_tokens: dict[int, float], count: int) -> float:
        values = [layer_tokens[w] for w in spec.windows]
        return max(sum(values[a : a + count]) for a in range(spec.layers - count + 1)) * kv

    kept = {w: float((np.minimum(prompt, w) if w else prompt).mean()) for w in spec.windows}
    context = sum(a + i for a, b in zip(prompt, output, strict=True) for i in range(int(b))) / output.sum()
    contexts = dict.fromkeys(spec.windows, context)
    hand_off = worst(kept, j)
    latency = seconds(chunk, lengths.prefill_context, batch) + hop
    alone_s = latency
    busy = (latency - hop) / pp  # parts as even as can be: a lower bound
    if phase is Phase.PREFILL:
        alone_s = seconds(longest * dp, (longest - 1) / 2, 0.0)
        if alone_s > budget * (1 + 1e-9):
            broken.append(f"percentile prompt takes {alone_s} of {budget}")
        most, sent = chunk / busy, hand_off / p + (0 if alone else spec.hidden_size * 2)
        stay = max(latency, alone_s) if alone else sm.slo_ms(phase) / 1000
        resident = rate * stay * worst(dict.fromkeys(spec.windows, p), -(-j // pp)) / p
    elif phase is Phase.DECODE:
        latency += hand_off / net / (o - 1)
        most, sent = batch / busy, hand_off / o + (0 if alone else spec.hidden_size * 2)
        resident = rate * (latency if alone else sm.slo_ms(phase) / 1000) * worst(contexts, -(-j // pp))
    else:
        share = min(batch / o, chunk / p) * p / chunk
        bare = seconds(0.0, 0.0, batch)
        most = share * chunk / p / (share * busy + (1 - share) * bare / pp)
        sent = 0.0 if alone else (p + o) * spec.hidden_size * 2
        first_token = np.ceil(longest * dp / chunk) * (latency if alone else sm.slo_ms(phase) / 1000)
        if first_token > sm.slo_ms(Phase.PREFILL) / 1000 * (1 + 1e-9):
            broken.append("the percentile prompt's first token comes too late")
        turn = share * latency + (1 - share) * bare if alone else sm.slo_ms(phase) / 1000
        resident = rate * turn * o * worst(contexts, -(-j // pp))
    if latency > budget * (1 + 1e-9):
        broken.append(f"step takes {latency} of {budget}")
    if rate > most * (1 + 1e-9):
        broken.append(f"rate {rate} over {most}")
    if sent and rate * sent > net * (1 + 1e-9):
        broken.append(f"sends {rate * sent} of {net}")
    return broken + _broken_memory(spec, table, cell, cost.gpus[config.gpu], resident)


def _broken_memory(
    spec: ModelSpec, table: ThroughputTable, cell: tuple[int, int, int, int], card: Gpu, resident: float
) -> list[str]:
    """`resident`: bytes of KV cache that the promised rate keeps there, of the largest part and all replicas."""
    role, j = StageRole(cell[0]), cell[3] + 1
    tp, dp, pp, ep = (int(a[cell]) for a in (table.tp, table.dp, table.pp, table.ep))
    broken = []
    shards = min(tp, spec.kv_heads)
    ends = spec.embedding_weight_bytes * (role in (StageRole.FIRST, StageRole.ONLY)) / tp
    head_bytes = spec.head_weight_bytes * (role in (StageRole.LAST, StageRole.ONLY)) / tp
    ends = max(ends, head_bytes) if pp > 1 or spec.tied_embeddings else ends + head_bytes
    weights = -(-j // pp) * (
        spec.attention_weight_bytes / tp + spec.ffn_weight_bytes / (max(tp, ep) if spec.experts else tp)
    )
    used = ends + weights + resident / dp / shards
    if used > 0.9 * card.memory_bytes:
        broken.append(f"holds {used} of {card.memory_bytes}")
    blocks = table.kv_blocks[cell] / dp * 16 * spec.kv_bytes_per_token_per_layer * -(-j // pp) / shards
    if blocks + ends + weights > 0.9 * card.memory_bytes:
        broken.append("KV blocks do not fit")
    return broken
