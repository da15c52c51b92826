"""A recorded snapshot comes back as it was, or not at all."""

import dataclasses

import msgspec
import pytest

from control.planning.recipe import ListedRecipe, PipelineRecipe, Recipe
from control.planning.recording import FORMAT, Recording, RecordingError, decode, encode, versioned
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Mode, Settings, SloSplit
from templates_lib.values.slo import Slo
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand


def recording() -> Recording:
    served = ServedModel(
        "chat", load_models()["gpt-oss-20b"], Slo(900.0, 30.0), load_shape("azure-code"), aggregated=True
    )
    node = NodeConfig("L4:1/n10", "L4", 1, 256.0, 10.0, 16.0)
    offer = Offer("aws", "r", "z", "g6.xlarge", node.id, Market.SPOT, 0.3, 4, "2026-01-01", 0.01, "list")
    snapshot = Snapshot(
        "", "2026-11-21T00:00:00+00:00", (offer,), (), (), (), served.routes(), (Demand("chat", "chat", 0.1),),
        Settings(Mode.PAPER), "library", "model",
    )  # fmt: skip
    recipe = PipelineRecipe((served,), (node,), ((node.id,),), 6, 12.0, SloSplit.EVEN)
    return Recording(FORMAT, "small", versioned(snapshot), Recipe((recipe,)), ("a note",))


def test_a_recording_comes_back_exactly() -> None:
    made = recording()
    read = decode(encode(made), "s.json")
    assert read.snapshot == made.snapshot
    assert encode(read) == encode(made)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float) -> None:
    data = encode(recording())
    with pytest.raises(RecordingError, match=r"s\.json: is truncated or damaged"):
        decode(data[: int(len(data) * share)], "s.json")


def test_an_edited_file_is_refused_unless_it_drops_its_version() -> None:
    edited = encode(recording()).replace(b'"usd_per_hour":0.3', b'"usd_per_hour":0.2')
    with pytest.raises(RecordingError, match="was edited"):
        decode(edited, "s.json")
    unversioned = msgspec.json.decode(edited)
    unversioned["snapshot"]["version"] = ""
    assert decode(msgspec.json.encode(unversioned), "s.json").snapshot.offers[0].usd_per_hour == 0.2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "is not a recorded snapshot"),
        (b"{}", "missing required field"),
        (b"NaN", "truncated or damaged"),
        (b"\xff\xfe", "truncated or damaged"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        decode(content, "s.json")


def test_a_newer_format_is_refused() -> None:
    newer = dataclasses.replace(recording(), format="medley/snapshot/v2")
    with pytest.raises(RecordingError, match="this release reads"):
        decode(encode(newer), "s.json")


def test_a_recipe_has_a_source_and_one_of_each_kind_at_most() -> None:
    assert len(Recipe((ListedRecipe((), ()), *recording().recipe.sources)).sources) == 2
    for sources in ((), (ListedRecipe((), ()), ListedRecipe((), ()))):
        with pytest.raises(ValueError, match="one source or more, and of each kind one at most"):
            Recipe(sources)


def test_a_file_of_before_says_which_sources_a_recipe_has_not() -> None:
    document = msgspec.json.decode(encode(recording()))
    assert list(document["recipe"]) == ["pipeline"]
    document["recipe"] |= {"listed": None}
    assert encode(decode(msgspec.json.encode(document), "s.json")) == encode(recording())


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ([], r"a recipe is an object, .* at `\$\.recipe`"),
        ({"listd": {}}, r"no kind of source is called 'listd'; did you mean 'listed'\?"),
        ({"listed": {"classes": [], "templates": [{"nodes": 1}]}}, r"at `\$\.recipe\.listed\.templates\[0\]\.nodes`"),
        ({"pipeline": 1}, r"at `\$\.recipe\.pipeline`"),
    ],
)
def test_a_mistake_in_a_recipe_is_found_where_it_is(recipe: object, message: str) -> None:
    document = msgspec.json.decode(encode(recording()))
    with pytest.raises(RecordingError, match=message):
        decode(msgspec.json.encode(document | {"recipe": recipe}), "s.json")
