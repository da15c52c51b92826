"""What a Prometheus and a Grafana are given asks for metrics and labels that the code has."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from control.gateway.metrics import GatewayMetrics

ROOT = Path(__file__).parents[2]
HERE = ROOT / "examples" / "monitoring"
SOURCES = "\n".join(path.read_text() for room in ("agents", "control") for path in (ROOT / room).rglob("*.py"))
RULES = [rule for group in yaml.safe_load((HERE / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((HERE / "grafana-dashboard.json").read_text())["panels"]
QUERIES = [
    *(rule["expr"] for rule in RULES),
    *(target["expr"].replace("$__rate_interval", "5m") for panel in PANELS for target in panel.get("targets", ())),
]
KINDS = "_total", "_bucket"


def base_of(name: str) -> str:
    """As the code calls it."""
    return next((name.removesuffix(kind) for kind in KINDS if name.endswith(kind)), name)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_queries_are_promql_of_metrics_that_there_are(query: str) -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    gateway = {each.name for each in GatewayMetrics().registry.collect()}
    named = re.findall(r"\b(?:medley|vllm)[_:][a-z0-9_:]+", query)
    assert named or "up{" in query
    for name in set(named) - recorded:
        base = base_of(name)
        assert base in gateway if base.startswith("medley_gateway_") else f'"{base}' in SOURCES, name
    pytest.importorskip("promql_parser").parse(query)


def test_labels_of_the_gateways_metrics_are_theirs() -> None:
    labels = {each._name: set(each._labelnames) for each in GatewayMetrics().registry._collector_to_names}
    for query in QUERIES:
        for name, given in re.findall(r"(medley_gateway_[a-z_]+)\{([^}]*)\}", query):
            asked = set(re.findall(r"(\w+)\s*=", given))
            assert asked <= labels[base_of(name)] | {"job"}, query


def test_alerts_say_what_is_wrong_and_each_name_is_one() -> None:
    alerts = [rule for rule in RULES if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 5
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "ticket") for rule in alerts)


def test_nodes_are_targets() -> None:
    nodes = [{"name": "n0", "metrics": "http://10.0.0.1:4711/metrics"}, {"name": "n1", "metrics": ""}]
    listed = json.dumps([{"id": "i", "nodes": nodes}])
    script = [sys.executable, HERE / "node_targets.py"]
    said = subprocess.run(script, input=listed, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [{"targets": ["10.0.0.1:4711"], "labels": {"node": "n0", "instance_id": "i"}}]
