"""`medley profile list` tells measured numbers from lent ones."""

import json

import yaml
from typer.testing import CliRunner

from control.cli.main import app
from templates_lib.cost.coefficients import load_coefficients
from templates_lib.hardware import load_gpus

PARTS = {"gemm", "experts", "prefill_attention", "decode_attention", "links"}


def listed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["profile", "list", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_gpu_says_whose_numbers_it_has() -> None:
    document = json.loads(listed("-o", "json"))
    assert document["fingerprint"] == load_coefficients().fingerprint
    assert set(document["gpus"]) == set(load_gpus())
    assert all(set(card["parts"]) == PARTS for card in document["gpus"].values())
    h100, a10g = document["gpus"]["H100"]["parts"], document["gpus"]["A10G"]["parts"]
    assert all(part["gpu"] == "H100" and part["rows"] > 0 for part in h100.values())
    assert a10g["gemm"]["gpu"] == "A40"
    assert "lent" in a10g["gemm"]["what"]
    assert all(part["gpu"] != "MI300X" for part in document["gpus"]["MI300X"]["parts"].values())
    assert {"vllm", "torch"} <= set(document["engines"])
    assert any(name.startswith("vllm ") for name in document["setups"])


def test_yaml_is_the_same_document_and_the_table_is_short() -> None:
    assert yaml.safe_load(listed("-o", "yaml")) == json.loads(listed("-o", "json"))
    table = listed()
    assert "of A40" in table
    assert "assumed" in table
    assert "median of" in table
    assert load_coefficients().fingerprint in table
