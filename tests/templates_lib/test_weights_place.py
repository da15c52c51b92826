"""Where weights lie, as fleets name it; what is not there is named."""

from pathlib import Path

import pytest

from templates_lib.models.catalogue import load_models, weights_places
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.weights_place import NoWeightsError, package_folder, weights_path


def test_a_path_is_itself_and_a_package_is_where_it_is_installed(tmp_path: Path) -> None:
    assert weights_path(f"path:{tmp_path}") == tmp_path
    assert (weights_path("package:templates_lib") / "models" / "weights_place.py").exists()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "package:NAME or path:PATH, not ''"),
        ("path:", "package:NAME or path:PATH"),
        ("https://host/weights", "package:NAME or path:PATH"),
        ("package:no_such_package", "'no_such_package' is not installed"),
        ("package:../etc", "is not installed"),
        ("path:/no/such/folder", "/no/such/folder does not exist"),
    ],
)
def test_what_cannot_be_found_is_named(place: str, words: str) -> None:
    with pytest.raises(NoWeightsError, match=words):
        weights_path(place)


def test_a_path_that_is_nearly_there_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "smollm2").mkdir()
    with pytest.raises(NoWeightsError, match="smollm2'"):
        weights_path(f"path:{tmp_path / 'smolm2'}")


def test_weights_of_the_catalogue_are_in_a_package_that_is_installed_or_on_the_hub() -> None:
    places = weights_places()
    assert places
    assert set(places) == set(load_models())
    packages = [place.removeprefix("package:") for place in places.values() if not is_on_hub(place)]
    assert packages
    assert all(any(package_folder(package).glob("*.gguf")) for package in packages)
