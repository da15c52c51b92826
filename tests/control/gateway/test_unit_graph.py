"""Which parts of a request are encoded where, and where their rows stand: decided without sockets."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.media.placeholders import PlaceholderError, expanded
from control.gateway.model_entry import ModelEntry
from control.gateway.published import PublishedModel
from control.gateway.tasks.unit_graph import EncodeStep, UnservedPathError, unit_graph
from control.gateway.tokenizer_source import load_tokenizer
from control.tasks.shipped_task import VARIABLE, shipped_source
from control.tasks.task_process import TaskProcess
from control.tasks.task_source import TaskSource
from medley_sdk.messages import RecordOne
from medley_sdk.values import Record, Signature
from policies.routing import BY_ID
from policies.routing_table import RoutedModel
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import Modality
from templates_lib.values.work import Unit
from tests.control.gateway.app_world import APP, ROUTES, SEEN, WITH_IMAGES, WRITTEN
from tests.control.gateway.world import byte_tokenizer

GRAPH = "qwen2.5-vl-7b"
OWN = """
from medley_sdk import decoder, workflow
language = decoder("language", of="qwen2.5-vl-7b")

@workflow(takes=("text",), makes=("text",))
async def task(request):
    return language(request.text, "in French")
"""


def recorded(source: TaskSource, images: int, *choices: int) -> Record:
    with TaskProcess(source) as process:
        (record,) = process.ask(RecordOne(VARIABLE, Signature("text", images=images), choices)).records
    return record


def test_each_picture_goes_to_the_leg_of_its_encoder_and_the_decoder_writes() -> None:
    graph, legs, parts = load_graph(GRAPH), [("vision",), ("language",)], {Modality.IMAGE: (0, 2)}
    found = unit_graph(graph, recorded(shipped_source(GRAPH), 2), legs, parts)
    assert set(found.encodes) == {EncodeStep("vision", 0, 0), EncodeStep("vision", 0, 2)}
    assert (found.leg, found.is_plain) == (1, True)
    assert found.record.calls[found.writer].unit.components == ("language",)


def test_a_generator_is_given_the_text_alone_and_makes_the_answer() -> None:
    for name, answer, component in (("kokoro-82m", "audio", "voice"), ("word-pictures", "image", "picture")):
        with TaskProcess(shipped_source(name)) as process:
            (record,) = process.ask(RecordOne(VARIABLE, Signature(answer), ())).records
        found = unit_graph(load_graph(name), record, [(component,)], {})
        assert (found.component, found.leg, found.encodes, found.is_plain) == (component, 0, (), True)


def test_what_no_executor_does_is_not_asked_of_any() -> None:
    graph, parts = load_graph(GRAPH), {Modality.IMAGE: (0,)}
    together = recorded(shipped_source(GRAPH), 1, 2)
    with pytest.raises(UnservedPathError, match="vision"):
        unit_graph(graph, together, [("vision", "language")], parts)
    with pytest.raises(UnservedPathError, match="route"):
        unit_graph(graph, together, [("vision",), ("language",)], parts)
    with pytest.raises(UnservedPathError, match="values"):
        unit_graph(graph, recorded(TaskSource("t.py", OWN), 0), [("language",)], {})


KINDS = st.sampled_from([Modality.IMAGE, Modality.AUDIO])
MARKS = {Modality.IMAGE: 1000, Modality.AUDIO: 1001}
UNITS = st.lists(st.tuples(KINDS, st.integers(1, 9)), max_size=6)


@given(UNITS, st.lists(st.integers(0, 999), max_size=20), st.randoms(use_true_random=False))
def test_rows_stand_where_the_template_had_their_pictures(units, words, random) -> None:
    order = [kind for kind, _ in units]
    tokens = [*words, *(MARKS[kind] for kind in order)]
    random.shuffle(tokens)
    found, places = expanded(tokens, MARKS, units)
    assert [token for token in found if token < 1000] == [token for token in tokens if token < 1000]
    taken = set[int]()
    for (kind, rows), place in zip(units, places, strict=True):
        span = range(place, place + rows)
        assert all(found[at] == MARKS[kind] for at in span)
        assert taken.isdisjoint(span)
        taken.update(span)
    assert len(found) == len(words) + sum(rows for _, rows in units)
    for kind in MARKS:
        own = [place for (of, _), place in zip(units, places, strict=True) if of is kind]
        assert own == sorted(own), "parts of a kind keep their order"


@given(UNITS, KINDS)
def test_a_prompt_with_another_number_of_places_is_refused(units, kind) -> None:
    tokens = [MARKS[each] for each, _ in units]
    with pytest.raises(PlaceholderError):
        expanded([*tokens, MARKS[kind]], MARKS, units)
    with pytest.raises(PlaceholderError):
        expanded(tokens, MARKS, [*units, (kind, 3)])


def test_who_brings_more_than_a_mean_request_is_charged_more_of_the_encoder(tmp_path: Path) -> None:
    routing = RoutedModel(f"{APP}-{WITH_IMAGES}", (ROUTES[WITH_IMAGES],), (), BY_ID)
    tokenizer = load_tokenizer(byte_tokenizer(tmp_path))

    async def charged(rows: int) -> dict[str, float]:
        model = ModelEntry(PublishedModel(routing, "", 1000, 17), tokenizer)
        return {each.work: each.units for each in model.charges(10, 10, ("", ""), {Unit.IMAGE_TOKEN: rows})}

    mean, large = (asyncio.run(charged(rows)) for rows in (6, 24))
    assert mean[SEEN.work_class] == SEEN.units_per_request
    assert large[SEEN.work_class] == 4 * mean[SEEN.work_class]
    assert large[WRITTEN.work_class] == mean[WRITTEN.work_class]
