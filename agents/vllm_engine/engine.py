"""One vLLM engine inside this process: token ids in, token ids out.

vLLM's engine core is stepped here and not in a process of its own: one process has a third of the resident libraries,
starts in half the time, leaves nothing behind when it is killed, and says exactly which KV blocks are free. Where a
model is cut over devices, each has a process, which ends with this one.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from vllm import SamplingParams
from vllm.config import KVTransferConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMError
from vllm.inputs.engine import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.llm_engine import LLMEngine

from agents.engines.errors import EngineError
from agents.engines.grammars import vocabulary_of
from agents.messages.bounds import MAX_TOP_LOGPROBS
from agents.messages.to_gateway import FinishReason, TokenLogprobs
from agents.messages.to_scheduler import Leg
from agents.scheduler.layout import PipelineLayout
from agents.vllm_engine import built_kernels, connector
from agents.vllm_engine.exchange import WHOLE, Ask, EngineLoad, KvFacts, KvNews, Made, Split
from agents.vllm_engine.held_weights import held_bytes
from agents.vllm_engine.host_kv import HostKv, empty_kv
from agents.vllm_engine.seeded_draw import ARGUMENT, SeededDraw, choice_arguments
from agents.vllm_engine.workers import FAULTS, Workers, fault_in, told_memory

CPU_BLOCK_TOKENS = 32
"""vLLM's attention on CPUs takes KV blocks of multiples of this."""
_HAND_OVER = KVTransferConfig(
    kv_connector=connector.HandOverConnector.__name__,
    kv_role="kv_both",
    kv_connector_module_path=connector.__name__,
)
_IDLE_STEPS = 2
"""After as many without any outcome, what waits does so for room or KV cache, and nothing changes by itself: blocks
that the first of them gave back, the second has given out. Where batches overlap, a step is over as many later."""
_WORKER = "agents.vllm_engine.worker.ToldWorker"
_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class VllmEngine:
    """Model in vLLM's engine. Belongs to one thread."""

    def __init__(
        self, folder: Path, layout: PipelineLayout, dtype: str, split: Split = WHOLE, prefix_cache: bool = True
    ) -> None:
        """`folder`: config.json and safetensors. `layout`: one stage of one node. `split`: over devices that this
        process sees; where there are several, each is driven by a process of its own, which ends with this one.
        `prefix_cache`: false keeps vLLM from having one.

        Raises whatever vLLM does where the model cannot be loaded."""
        ((node,),) = layout.stages
        block_tokens = layout.block_tokens
        if current_platform.is_cpu():
            torch._dynamo.config.disable = True  # would compile small functions, with a compiler that may not be there
            os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the same, of workers
            block_tokens = CPU_BLOCK_TOKENS * -(-block_tokens // CPU_BLOCK_TOKENS)
        kv_blocks = -(-node.kv_blocks * layout.block_tokens // block_tokens)
        arguments = EngineArgs(
            model=str(folder),
            skip_tokenizer_init=True,
            generation_config="vllm",
            load_format="safetensors",
            dtype=dtype,
            enforce_eager=current_platform.is_cpu(),
            max_model_len=min(layout.max_context_tokens, kv_blocks * block_tokens),
            block_size=block_tokens,
            num_gpu_blocks_override=kv_blocks + 1,  # vLLM keeps one for itself
            kv_cache_memory_bytes=1,  # given, so that vLLM does not measure; the number of blocks is what counts
            # vLLM asks that this share of a GPU be free, though the number of blocks is given: instances share cards
            gpu_memory_utilization=0.92 if current_platform.is_cpu() else 0.01,
            max_num_seqs=node.batch_cap * split.parts,  # each part works on a batch, and this counts all of them
            max_num_batched_tokens=node.chunk_tokens + node.batch_cap,
            max_logprobs=MAX_TOP_LOGPROBS,
            logits_processors=[SeededDraw],
            disable_log_stats=True,
            enable_prefix_caching=None if prefix_cache else False,
            tensor_parallel_size=split.tensor_parallel,
            pipeline_parallel_size=split.parts,
            enable_expert_parallel=split.whole_experts,
            distributed_executor_backend="mp" if split.devices > 1 else "uni",
            worker_cls=_WORKER if split.devices > 1 else "auto",
            attention_config=built_kernels.attention(dtype, _capability()),
            kv_transfer_config=_HAND_OVER,
        )
        self._llm = _loaded(arguments)
        self._vocab_size = self._llm.model_config.get_vocab_size()
        if self._vocab_size != layout.vocab_size:
            raise ValueError(f"the model has {self._vocab_size} tokens, the layout says {layout.vocab_size}")
        self._obeys_grammars = vocabulary_of(folder, self._vocab_size) is not None
        self._core = self._llm.engine_core.engine_core
        self._workers = Workers(self._core.model_executor)
        self._scheduler = self._core.scheduler
        self._book = self._scheduler.get_kv_connector().book
        self._idle_steps = 0

    @property
    def kv(self) -> KvFacts | str:
        facts: KvFacts | str = self._scheduler.get_kv_connector().facts
        return facts

    @property
    def held_bytes(self) -> list[int]:
        """Return what weights take in each of its workers."""
        held: list[int] = self._called(self._llm.collective_rpc, held_bytes)
        return held

    @property
    def load(self) -> EngineLoad:
        pool = self._scheduler.kv_cache_manager.block_pool
        running = len(self._scheduler.running) + self._book.holding
        return EngineLoad(running, pool.num_gpu_blocks - 1, pool.get_num_free_blocks(), self._obeys_grammars)

    @property
    def has_work(self) -> bool:
        if self._llm.has_unfinished_requests():
            under_way = self._idle_steps < _IDLE_STEPS + self._core.batch_queue_size - 1
        else:
            under_way = bool(self._core.batch_queue)
        return under_way or bool(self._book.is_due)

    def add(self, ask: Ask) -> None:
        """Raises ValueError for what vLLM does not take."""
        self._idle_steps = 0
        wanted = ask.sampling
        is_plain = wanted.temperature == 0 and wanted.rules is None
        extra: dict[str, Any] = {} if is_plain else {ARGUMENT: choice_arguments(wanted, ask.prompt_tokens)}
        if ask.leg is not Leg.WHOLE:
            extra[connector.PARAMETERS] = connector.request_parameters(ask.id, ask.leg)
        params = SamplingParams(
            temperature=0.0,
            max_tokens=ask.max_new_tokens,
            stop_token_ids=[token for token in ask.stop_ids if token < self._vocab_size],  # vLLM refuses others
            ignore_eos=True,
            detokenize=False,
            logprobs=wanted.top_logprobs,
            output_kind=RequestOutputKind.DELTA,
            extra_args=extra or None,
        )
        try:
            tokens = tokens_input(list(ask.tokens), cache_salt=ask.cache_salt or None)
            self._llm.add_request(ask.id, tokens, params)
        except VLLMError as error:
            raise ValueError(str(error)) from error

    def abort(self, request: str) -> None:
        self._idle_steps = 0
        self._llm.abort_request([request])
        self._book.release(request)

    def watch(self, lost: Callable[[Exception], None]) -> None:
        self._workers.watch(lost)

    def export(self, request: str) -> HostKv | None:
        kept, facts = self._book.kept(request), self.kv
        if kept is None or isinstance(facts, str):
            return None
        blocks, tokens = kept
        kv = empty_kv(facts, tokens)
        self._called(self._llm.collective_rpc, connector.read_kept, args=(blocks, kv))
        return kv

    def bring(self, request: str, kv: HostKv) -> None:
        self._idle_steps = 0
        self._book.bring(request, kv)

    def step(self) -> tuple[Made, ...]:
        made = tuple(map(_made, self._called(self._llm.step)))
        self._idle_steps = 0 if made or self._scheduler.running else self._idle_steps + 1
        return made

    def take_news(self) -> tuple[KvNews, ...]:
        news: tuple[KvNews, ...] = self._book.take_news()
        return news

    def _called(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call vLLM. Raises OutOfMemoryError, RankLostError where a worker ended, and what else vLLM does."""
        try:
            return call(*arguments, **more)
        except Exception as error:
            raise self._workers.cause(error) from error


def _capability() -> int:
    """Capability of the GPU, 90 of an H100; 0 where there is none."""
    found = current_platform.get_device_capability()
    return found.to_int() if found is not None else 0


def _loaded(arguments: EngineArgs) -> Any:
    """Load the model, without the rendezvous file that vLLM leaves in the folder for temporary files.

    Raises OutOfMemoryError, EngineError with what a worker says, and what else vLLM does."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as faults:
        tempfile.tempdir, os.environ[FAULTS] = folder, faults
        try:
            return LLMEngine.from_engine_args(arguments)
        except Exception as error:
            fault = fault_in(Path(faults))
            raise told_memory(EngineError(fault) if fault else error) from error
        finally:
            tempfile.tempdir = before
            del os.environ[FAULTS]


def _made(output: Any) -> Made:
    (completion,) = output.outputs
    reason, refusal = None, ""
    if completion.finish_reason is not None:
        reason = _REASONS.get(completion.finish_reason)
        refusal = "" if reason else f"vLLM ended the request: {completion.finish_reason}"
    ids = tuple(completion.token_ids)
    entries = zip(ids, completion.logprobs or (), strict=False)
    logprobs = tuple(_logprobs(token, entry) for token, entry in entries)
    return Made(output.request_id, ids, logprobs, reason, output.num_cached_tokens or 0, refusal)


def _logprobs(token: int, entry: dict[int, Any]) -> TokenLogprobs:
    """Read log probabilities: vLLM gives the alternatives asked for, and the chosen token where it is none of them."""
    ranked = sorted(entry.items(), key=lambda item: item[1].rank)
    return TokenLogprobs(entry[token].logprob, tuple((other, value.logprob) for other, value in ranked))
