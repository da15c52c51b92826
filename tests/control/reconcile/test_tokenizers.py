"""Tokenizers of weights on the hub are fetched beside the loop, kept, and asked for again after a failure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.messages.to_scheduler import Pooling
from control.fleet.effects import ThreadEffects
from control.gateway.embedder import Embedder
from control.gateway.tokenizer_source import load_tokenizer
from control.reconcile.tokenizers import AwaitedError, Tokenizers
from templates_lib.models.weights_place import NoWeightsError
from tests.control.gateway.world import byte_tokenizer
from tests.hub_server import Hub, files_of, serving, use

PLACE = "hf:acme/tiny@main"


@dataclass
class Site:
    hub: Hub
    folder: Path
    effects: ThreadEffects = field(default_factory=ThreadEffects)
    now_s: float = 1000.0
    tokenizers: Tokenizers = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizers = Tokenizers(self.folder, self.effects, lambda: self.now_s)

    def fetch(self, place: str = PLACE) -> None:
        """Ask for it, and wait for what that begins."""
        with pytest.raises((AwaitedError, NoWeightsError)):
            self.tokenizers(place)
        self.effects.wait(60)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    files = files_of(byte_tokenizer(tmp_path / "tiny"))
    with serving(Hub({"acme/tiny": files | {"model.safetensors": b"not for gateways"}})) as hub:
        use(hub, tmp_path / "home", monkeypatch)
        made = Site(hub, tmp_path / "tokenizers")
        yield made
        made.effects.close()


def test_it_is_fetched_once_and_is_what_gateways_load(site: Site) -> None:
    site.fetch()
    found = site.tokenizers(PLACE)
    assert load_tokenizer(Path(found)).encode(["hi"], is_rendered=True)
    assert sorted(site.hub.sent) == ["tokenizer.json", "tokenizer_config.json"]
    assert Tokenizers(site.folder, site.effects)(PLACE) == found, "a later control plane finds it"
    assert [path.name for path in site.folder.iterdir()] == ["acme%2Ftiny%40main"]


def test_how_embeddings_are_made_comes_with_it(site: Site) -> None:
    modules = b'[{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}]'
    pooling = {"modules.json": modules, "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}'}
    site.hub.files = {"acme/tiny": {**site.hub.files["acme/tiny"], **pooling}}
    site.fetch()
    assert load_tokenizer(Path(site.tokenizers(PLACE))).embedder == Embedder(Pooling.MEAN, normalises=False)


def test_a_failure_is_said_and_tried_again_after_a_while(site: Site) -> None:
    site.hub.token = "only some"  # noqa: S105
    site.fetch()
    with pytest.raises(NoWeightsError, match="set HF_TOKEN"):
        site.tokenizers(PLACE)
    site.hub.token = ""
    site.effects.wait(60)
    with pytest.raises(NoWeightsError, match="set HF_TOKEN"):
        site.tokenizers(PLACE)
    site.now_s += 1.5
    site.fetch()
    assert Path(site.tokenizers(PLACE), "tokenizer.json").is_file()


def test_what_is_on_this_machine_is_where_it_lies(site: Site, tmp_path: Path) -> None:
    assert site.tokenizers(f"path:{tmp_path / 'tiny'}") == str(tmp_path / "tiny")
    with pytest.raises(NoWeightsError, match="does not exist"):
        site.tokenizers(f"path:{tmp_path / 'tinny'}")
