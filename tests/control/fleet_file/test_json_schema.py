"""Terraform's provider carries the schema of specs as it is, with the names that the registries have."""

import json
from pathlib import Path

from control.fleet_file.json_schema import json_schema
from policies.forecasts import FORECASTS
from templates_lib.values.engines import model_engines
from templates_lib.values.offer import Market

SHIPPED = Path(__file__).parents[3] / "terraform" / "provider" / "medley_terraform" / "fleet_file.json"


def test_the_provider_carries_the_schema_as_it_is() -> None:
    assert SHIPPED.read_text() == json_schema(), f"run: python -m control.fleet_file.json_schema > {SHIPPED}"


def test_names_are_those_of_the_registries() -> None:
    known = json.loads(json_schema())["$defs"]
    assert known["ModelSection"]["properties"]["engine"]["anyOf"][0]["enum"] == list(model_engines())
    assert known["ForecastSection"]["properties"]["policy"]["enum"] == list(FORECASTS)
    assert known["Market"]["enum"] == list(Market)
