"""What every engine that answers clients step by step holds to."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from agents.engines.components.stepped import Asked, Piece, SteppedAnswer, SteppedEngine
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.torch_components.loading import Limits
from agents.executor.generators import Place, loader_of
from agents.messages.component_work import AskedPicture, AskedSpeech
from bench.speech.assembling import assemble
from tests.agents.engines.components.tiny_pictures import save_pictures
from tests.agents.engines.pipelines import DEVICE

PLACE = Place(DEVICE, torch.float32)


@dataclass(frozen=True)
class Case:
    folder: Path
    component: str
    engine: SteppedEngine
    asked: tuple[Asked, ...]
    """Good ones."""
    refused: tuple[Asked, ...]


def pictures(folder: Path) -> Case:
    asked = (
        AskedPicture("a red circle", 0, 0, 7),
        AskedPicture("blue", 24, 16, 8, 5, 1.0),
        AskedPicture("red", 16, 24, 9),
    )
    refused = (
        msgspec.structs.replace(asked[0], text="nothing that is known"),
        msgspec.structs.replace(asked[0], width=18),
        msgspec.structs.replace(asked[0], width=4096, height=4096),
        AskedSpeech("Hello."),
    )
    return case(save_pictures(folder), "picture", asked, refused)


def speech(folder: Path) -> Case:
    assemble(folder, "en-us")
    asked = AskedSpeech("Good evening. How are you?"), AskedSpeech("Yes.", speed=1.5)
    refused = (
        AskedSpeech("?! ..."),
        AskedSpeech("Hello.", voice="nobody"),
        AskedPicture("red", 0, 0, 1),
    )
    return case(folder, "voice", asked, refused)


def case(folder: Path, component: str, asked: tuple[Asked, ...], refused: tuple[Asked, ...]) -> Case:
    load = loader_of(folder, component)
    assert load is not None
    return Case(folder, component, load(folder, component, PLACE, Limits()), asked, refused)


@pytest.fixture(scope="module", params=[pictures, pytest.param(speech, marks=pytest.mark.needs("kokoro"))])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    found: Case = request.param(tmp_path_factory.mktemp("model"))
    yield found
    found.engine.close()


def all_pieces(engine: SteppedEngine, answers: list[SteppedAnswer], together: int) -> list[list[Piece]]:
    """Of answers that take their steps together, in turn where they are too many."""
    found: dict[int, list[Piece]] = {id(each): [] for each in answers}
    line = list(answers)
    while line:
        batch, line = line[:together], line[together:]
        for answer, piece in zip(batch, engine.step(batch), strict=True):
            if piece is not None:
                found[id(answer)].append(piece)
        line += [each for each in batch if not each.is_done]
    return [found[id(each)] for each in answers]


def values(piece: Piece) -> np.ndarray:
    if piece.samples_per_s:
        return np.frombuffer(piece.data, "<i2")
    return np.asarray(Image.open(io.BytesIO(piece.data)))


def test_answers_are_those_of_each_alone_whoever_takes_steps_beside(made: Case) -> None:
    engine = made.engine
    together = all_pieces(engine, [engine.begin(each) for each in made.asked], engine.facts.most_units)
    for asked, found in zip(made.asked, together, strict=True):
        (alone,) = all_pieces(engine, [engine.begin(asked)], 1)
        assert [values(each).shape[1:] for each in found] == [values(each).shape[1:] for each in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.units == pytest.approx(other.units, rel=0.02)
            if not one.samples_per_s:  # a voice has noise of its own each time
                assert np.abs(values(one).astype(int) - values(other)).max() <= 1


def test_a_piece_says_what_it_is_and_what_it_took(made: Case) -> None:
    engine, asked = made.engine, made.asked[0]
    (pieces,) = all_pieces(engine, [engine.begin(asked)], 1)
    for piece in pieces:
        data = values(piece)
        assert data.size
        assert data.std() > 0
        if piece.samples_per_s:
            assert piece.units == pytest.approx(len(data) / piece.samples_per_s)
    if not engine.facts.is_heard:
        assert len(pieces) == 1
    assert engine.facts.weight_bytes > 0


def test_an_example_has_about_as_many_units_as_asked_for(made: Case) -> None:
    engine = made.engine
    for units in (2.0, 6.0):
        (pieces,) = all_pieces(engine, [engine.begin(engine.example(units, 4.0))], 1)
        assert sum(piece.units for piece in pieces) == pytest.approx(units, rel=0.5)


def test_an_answer_goes_on_behind_the_pieces_that_are_there(made: Case) -> None:
    engine, asked = made.engine, made.asked[0]
    (pieces,) = all_pieces(engine, [engine.begin(asked)], 1)
    for skip in range(1, len(pieces)):
        (rest,) = all_pieces(engine, [engine.begin(asked, skip)], 1)
        assert len(rest) == len(pieces) - skip
    with pytest.raises(BadBatchError):
        engine.begin(asked, len(pieces))


def test_what_it_does_not_make_is_refused_before_a_step(made: Case) -> None:
    engine = made.engine
    for asked in made.refused:
        with pytest.raises(BadBatchError):
            engine.begin(asked)
    good = engine.begin(made.asked[0])
    for batch in ([], [good, good], [object()]):
        with pytest.raises(BadBatchError):
            engine.step(batch)
    all_pieces(engine, [good], 1)
    with pytest.raises(BadBatchError):
        engine.step([good])


def test_memory_that_it_does_not_fit_is_refused(made: Case) -> None:
    load = loader_of(made.folder, made.component)
    assert load is not None
    with pytest.raises(OutOfMemoryError):
        load(made.folder, made.component, PLACE, Limits(memory_bytes=1000))
