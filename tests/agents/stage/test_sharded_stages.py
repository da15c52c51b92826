"""A pipeline whose stages are cut over several devices of their nodes: the tokens are the same, and all of it ends."""

from pathlib import Path

import psutil
import pytest
import torch

from agents.messages.to_gateway import Finished
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference, save_model
from tests.agents.stage.instances import PATIENCE_S, Gateway, Instance, play
from tests.agents.stage.questions import asked

TWO = ("--device", "cpu", "--device", "cpu")
TOKENS = 12


@pytest.mark.parametrize("how", [(), ("--whole-experts",)], ids=["tensors", "experts"])
def test_stages_on_two_devices_each_answer_as_one_model(tmp_path: Path, how: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    checkpoint = tmp_path / "tiny"
    checkpoint.mkdir()
    model = save_model("gpt-oss", checkpoint)
    prompts = {n: prompt_of(6 + 11 * n, n) for n in range(4)}
    answers = {n: reference(model, prompt, TOKENS) for n, prompt in prompts.items()}
    instance = Instance(tmp_path, checkpoint, (4, 2), ((1.0,), (1.0,)), worker_options=(*TWO, *how))

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, prompt, TOKENS) for n, prompt in prompts.items()))
        await gateway.until(lambda: len(gateway.ends()) == len(prompts))
        assert all(isinstance(end, Finished) for end in gateway.ends().values())
        for n, answer in answers.items():
            assert_same(gateway.tokens(n), answer)

    with instance:
        play(instance, scenario)
        shards = [c for w in instance.workers.values() for c in psutil.Process(w.pid).children(recursive=True)]
        assert shards
        instance.scheduler.kill()
        instance.ended()
        _, left = psutil.wait_procs(shards, timeout=PATIENCE_S)
        assert left == []
