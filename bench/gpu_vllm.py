"""vLLM on a GPU as nodes run it: whole models, and KV caches that one instance hands over to another.

    python -m bench.gpu_vllm [--device cuda] [--layers 32] [--parts whole,handed-over,times,floor]

The node's own program (`agents.vllm_engine`), in vLLM's environment (`MEDLEY_VLLM_PYTHON`, else this one): a tiny model
gives the tokens of transformers, whole, and with prefill in one instance and decode in another behind a gateway; both
instances are on one card. Then a Llama of 8 billion parameters with random weights in bf16 answers, and what a client
sees is timed: the first token of prompts, and the time between tokens of 1, 16 and 64 requests. Last come layers so
thin that their weights take no time to read: what a layer and a step take for being there. Exit status 69: vLLM is not
installed, or finds no GPU. `--device cpu` tries all of it, with tiny models' times.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from agents.messages.to_gateway import Failed, Finished
from bench.gpu_stages import SHAPE
from bench.text_tables import DECODE, PREFILL
from control.profiles.engine_home import NoEngineError, engine_python
from tests.agents.engines.offered_models import save_tiny, tiny_config
from tests.agents.engines.tiny_models import NEAR_TIE, VOCABULARY, prompt_of, reference, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet
from tests.agents.stage.instances import Gateway, play
from tests.agents.stage.questions import asked
from tests.agents.vllm_engine.nodes import VllmNode

PARTS = ("whole", "handed-over", "times", "floor")
HEAD_DIM = 32
"""The least that vLLM's attention takes."""
CONTEXT, TOKENS = 256, 12
TIMED_CONTEXT, TIMED_TOKENS = 2304, 33
BATCHES = (1, 16, 64)


@dataclass(frozen=True, slots=True)
class Timed:
    """A model to be timed."""

    name: str
    vocabulary: int
    context: int
    prompts: tuple[int, ...]
    dtype: str


EIGHT_BILLION = Timed("llama 3 8b", SHAPE["vocab_size"], TIMED_CONTEXT, (512, 2048), "bfloat16")
TINY = Timed("tiny llama", VOCABULARY, CONTEXT, (64,), "float32")
THIN = SHAPE | {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
}
"""Layers of 5 MB in bf16: two microseconds of an H100's memory."""
THIN_LAYERS = (8, 40)


class CannotRunError(Exception):
    """vLLM is not installed here, or finds no GPU."""


def vllm_python(device: str) -> Path:
    """Return the Python that has vLLM, for this device. Raises CannotRunError."""
    try:
        python = engine_python("vllm")
    except NoEngineError as error:
        if importlib.util.find_spec("vllm") is None:
            raise CannotRunError(str(error)) from None
        python = Path(sys.executable)
    if device == "cpu":
        return python
    look = (str(python), "-c", "import torch; print(torch.version.cuda, torch.cuda.device_count())")
    done = subprocess.run(look, capture_output=True, text=True, check=False)
    built, _, cards = done.stdout.strip().rpartition(" ")
    if done.returncode or built in ("", "None"):
        raise CannotRunError(f"torch of {python} is not built for CUDA")
    if not int(cards):
        raise CannotRunError(f"torch of {python} finds no GPU here")
    return python


def whole(python: Path) -> bool:
    """Tell whether one instance gives the tokens of transformers."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        config = tiny_config("llama-3-70b", HEAD_DIM) | {"max_position_embeddings": CONTEXT, "vocab_size": VOCABULARY}
        saved, model = save_tiny(config, folder / "model")
        prompts = {n: prompt_of(9 + 20 * n, n) for n in range(3)}
        wrong = []

        async def scenario(gateway: Gateway) -> None:
            gateway.send(*(asked(n, prompt, TOKENS) for n, prompt in prompts.items()))
            await gateway.until(lambda: len(gateway.ends()) == len(prompts))
            for n, prompt in prompts.items():
                if isinstance(end := gateway.ends()[n], Failed):
                    wrong.append(f"prompt of {len(prompt)}: {end}")
                elif differ(gateway.tokens(n), reference(model, prompt, TOKENS)):
                    wrong.append(f"prompt of {len(prompt)}: {gateway.tokens(n)}")

        with node(folder, saved, TINY, python) as made:
            play(made, scenario)
    return _said("whole", wrong)


def handed_over(python: Path) -> bool:
    """Tell whether two instances, one of which prefills, give them."""
    with TemporaryDirectory() as place:
        folder, wrong = Path(place), []
        model = save_model("llama", folder / "model", head_dim=HEAD_DIM)
        fleet = Fleet(folder, folder / "model")
        try:
            for name, leg in (("v1", PREFILL), ("v2", DECODE)):
                fleet.add_vllm(name, leg, python=python)
            fleet.publish()
            fleet.start_gateway(*QUICK)
            fleet.pair("v1", "v2")
            streams = {n: fleet.stream(prompt_of(5 + 23 * n, n), TOKENS) for n in range(5)}
            for n, stream in streams.items():
                if differ(stream.end(), reference(model, prompt_of(5 + 23 * n, n), TOKENS)):
                    wrong.append(f"prompt of {5 + 23 * n}: {stream.tokens}")
            received = fleet.stats("v2").done.received_kv_bytes
        finally:
            fleet.stop()
    print(f"handed over: {received:,} bytes of KV caches", flush=True)
    return _said("handed over", wrong or ([] if received else ["no KV cache came"]))


def times(python: Path, timed: Timed, layers: int) -> bool:
    """Print what a client sees of one instance. False where requests fail."""
    with TemporaryDirectory() as place:
        folder, checkpoint = Path(place), Path(place) / "model"
        if timed is TINY:
            save_model("llama", checkpoint, head_dim=HEAD_DIM)
        else:
            save_random(checkpoint, layers, SHAPE)
        start, wrong = time.perf_counter(), []

        async def scenario(gateway: Gateway) -> None:
            print(f"{timed.name}: up in {time.perf_counter() - start:.0f} s", flush=True)
            attempt = 0
            for batch, prompt, tokens in [(1, length, 1) for length in timed.prompts] + [
                (batch, timed.prompts[0], TIMED_TOKENS) for batch in BATCHES
            ]:
                found = []
                for _ in range(3):  # the first warms up
                    found.append(await seconds_of(gateway, attempt, batch, prompt, tokens, timed.vocabulary))
                    attempt += batch
                took_s = statistics.median(found[1:])
                each = f", {1000 * took_s / tokens:.2f} ms a token" if tokens > 1 else ""
                print(f"{batch} prompts of {prompt}, {tokens} tokens each: {1000 * took_s:.1f} ms{each}", flush=True)
            wrong.extend(str(end) for end in gateway.ends().values() if not isinstance(end, Finished))

        with node(folder, checkpoint, timed, python) as made:
            play(made, scenario)
    return _said("times", wrong)


def floor(python: Path, device: str) -> bool:
    """Print what steps of one request take by number of thin layers, and a layer's share. False where requests fail."""
    wrong: list[str] = []
    token_s: dict[int, float] = {}
    timed = Timed("thin", THIN["vocab_size"], TIMED_CONTEXT, (512,), "bfloat16" if device == "cuda" else "float32")
    for layers in THIN_LAYERS:
        with TemporaryDirectory() as place:
            save_random(Path(place) / "model", layers, THIN)

            async def scenario(gateway: Gateway, layers: int = layers) -> None:
                found = []
                for attempt in range(5):
                    one = await seconds_of(gateway, 2 * attempt, 1, 512, 1, timed.vocabulary)
                    many = await seconds_of(gateway, 2 * attempt + 1, 1, 512, 1 + 256, timed.vocabulary)
                    found.append((many - one) / 256)
                token_s[layers] = statistics.median(found[1:])
                print(f"{layers} thin layers: {1e6 * token_s[layers]:.0f} us a token", flush=True)
                wrong.extend(str(end) for end in gateway.ends().values() if not isinstance(end, Finished))

            with node(Path(place), Path(place) / "model", timed, python) as made:
                play(made, scenario)
    few, many = THIN_LAYERS
    layer_s = (token_s[many] - token_s[few]) / (many - few)
    print(f"a layer: {1e6 * layer_s:.1f} us; a step without layers: {1e6 * (token_s[few] - few * layer_s):.0f} us")
    return _said("floor", wrong)


async def seconds_of(gateway: Gateway, first: int, batch: int, prompt: int, tokens: int, vocabulary: int) -> float:
    """Seconds until all of a batch have ended; no two prompts begin alike."""
    draw = torch.Generator().manual_seed(first)
    prompts = torch.randint(0, vocabulary, (batch, prompt), generator=draw).tolist()
    start = time.perf_counter()
    gateway.send(*(asked(first + n, each, tokens) for n, each in enumerate(prompts)))
    await gateway.until(lambda: all(first + n in gateway.ends() for n in range(batch)))
    return time.perf_counter() - start


def node(folder: Path, checkpoint: Path, timed: Timed, python: Path) -> VllmNode:
    """An instance with room for the largest batch."""
    blocks = (max(BATCHES) + 1) * (max(timed.prompts) + TIMED_TOKENS + 32) // 16
    sizes = {"asked_blocks": blocks, "batch_cap": max(BATCHES), "chunk_tokens": max(timed.prompts)}
    return VllmNode(
        folder, checkpoint, "tiny", timed.vocabulary, timed.context, dtype=timed.dtype, python=python, **sizes
    )


def save_random(folder: Path, layers: int, shape: dict[str, Any]) -> None:
    """Save a Llama of this many layers of this shape, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM._from_config(LlamaConfig(num_hidden_layers=layers, **shape), dtype=torch.bfloat16)
    model.save_pretrained(folder)


def differ(tokens: list[int], expected: tuple[list[int], list[float]]) -> bool:
    """Tell whether tokens differ, but for what follows a near tie."""
    ids, gaps = expected
    first = next((i for i, pair in enumerate(zip(tokens, ids, strict=False)) if pair[0] != pair[1]), None)
    return len(tokens) != len(ids) or (first is not None and gaps[first] >= NEAR_TIE)


def _said(part: str, wrong: list[str]) -> bool:
    print(f"{part}: {'right' if not wrong else '; '.join(wrong)}", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--parts", default=",".join(PARTS), help="of %(default)s")
    arguments = parser.parse_args()
    try:
        python = vllm_python(arguments.device)
    except CannotRunError as error:
        print(f"cannot run: {error}")
        return os.EX_UNAVAILABLE
    timed = EIGHT_BILLION if arguments.device == "cuda" else TINY
    does: dict[str, Callable[[], bool]] = {
        "whole": lambda: whole(python),
        "handed-over": lambda: handed_over(python),
        "times": lambda: times(python, timed, arguments.layers),
        "floor": lambda: floor(python, arguments.device),
    }
    found = [does[part]() for part in PARTS if part in arguments.parts.split(",")]  # all, also behind one that fails
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
