"""What a new user types first: help by what commands are for, names that specs may use, and a first spec that plans."""

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from control.cli.main import app
from control.fleet_file.document import parse
from control.planning.world import World, read_world
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.hardware import gpu


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(command: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(run(command, "-o", "json"))
    table = run(command)
    assert all(str(next(iter(row.values()))) in table for row in rows)
    return rows


def test_every_command_stands_once_in_the_help_under_what_it_is_for() -> None:
    group = typer.main.get_command(app)
    named = [name for names in group.SECTIONS.values() for name in names]  # type: ignore[attr-defined]
    assert sorted(named) == sorted(group.commands)  # type: ignore[attr-defined]
    shown = run("--help")
    assert all(f"\n  {name} " in shown for name in named)


def test_every_command_has_its_place_on_the_page_about_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    (rows,) = re.findall(r"^\| plan \|.*^\| administer \|.*?$", page, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([a-z]+)`", rows)
    assert sorted(named) == sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def test_what_is_listed_is_what_a_spec_may_name() -> None:
    assert [row["model"] for row in listed("models")] == sorted(load_models())
    for row in listed("workloads"):
        load_shape(str(row["workload"]))
    for row in listed("gpus"):
        assert gpu(str(row["gpu"])).memory_gib == row["memory_gib"]


def made(tmp_path: Path, *arguments: str) -> World:
    run("init", str(tmp_path / "first.yaml"), *arguments)
    return read_world(tmp_path / "first.yaml")


@pytest.mark.parametrize("cloud", ["aws", "gcp", "runpod", "local"])
@pytest.mark.parametrize("model", [None, "qwen3-32b"])
def test_a_first_spec_is_one_that_can_be_planned(tmp_path: Path, cloud: str, model: str | None) -> None:
    world = made(tmp_path, "--cloud", cloud, *(("--model", model) if model else ()))
    assert world.name == "first"
    assert world.quotes.offers
    assert {offer.cloud for offer in world.quotes.offers} == {cloud}
    assert all(served.slo.queueing for served in world.recipe.served)


def test_what_is_asked_for_is_what_is_written(tmp_path: Path) -> None:
    world = made(
        tmp_path, "--model", "phi-4-14b", "--model", "qwen3-32b", "--ttft-ms", "900", "--tpot-ms", "40.5",
        "--requests-per-s", "2.5", "--workload", "azure-code", "--name", "two",
    )  # fmt: skip
    assert world.name == "two"
    assert [served.name for served in world.recipe.served] == ["phi-4-14b", "qwen3-32b"]
    assert {(served.slo.ttft_ms, served.slo.tpot_ms) for served in world.recipe.served} == {(900.0, 40.5)}
    assert {served.shape.id for served in world.recipe.served} == {"azure-code"}
    models = parse((tmp_path / "first.yaml").read_text(), "").value["models"]
    assert [model["demand"] for model in models] == [{"requests_per_s": 2.5}] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "qwen3-3b"), "qwen3-32b"),
        (("--cloud", "awss"), "aws"),
        (("--ttft-ms", "-1"), "ttft_ms"),
        (("--model", "a: {b"), "first.yaml"),
    ],
)
def test_nothing_is_written_that_could_not_be_planned(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "first.yaml"), *arguments])
    assert done.exit_code == 1
    assert words in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(tmp_path / "first.yaml")])
    assert done.exit_code == 1
    assert (tmp_path / "first.yaml").read_text() == "mine"
