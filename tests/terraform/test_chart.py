"""The Helm chart, rendered by Helm's own code and held against Kubernetes' schemas. No cluster is at hand."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import IAC_VENV
from tests.terraform.modules import ROOT

CHART = ROOT / "examples" / "kubernetes" / "medley"
VALUES = yaml.safe_load((CHART.parent / "values.example.yaml").read_text())
KUBERNETES = "1.34"

pytestmark = pytest.mark.needs("iac")


def helm(*values: dict[str, Any], lint: bool = False) -> list[dict[str, Any]]:
    """What Helm makes of each of the values."""
    script = Path(__file__).with_name("render_chart.py")
    done = subprocess.run(
        [IAC_VENV / "bin" / "python", script, CHART, *(["--lint"] if lint else [])], input=json.dumps(values),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def changed(**more: object) -> dict[str, Any]:
    """The example, with other values: `api__replicas=3`."""
    values = copy.deepcopy(VALUES)
    for path, value in more.items():
        *outer, last = path.split("__")
        place = values
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = value
    return values


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    (made,) = helm(VALUES, lint=True)
    assert "error" not in made, made
    return made


@pytest.fixture(scope="module")
def objects(rendered: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """(kind, name) \u2192 object."""
    texts = [text for name, text in rendered["rendered"].items() if name.endswith(".yaml")]
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pods(objects: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """Workload \u2192 spec of its pods."""
    found = {}
    for (kind, name), one in objects.items():
        if kind in ("Deployment", "StatefulSet"):
            found[name] = one["spec"]["template"]["spec"]
        elif kind == "CronJob":
            found[name] = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def test_helm_finds_nothing_wrong(rendered: dict[str, Any]) -> None:
    assert rendered["lint"] == []


def test_kubernetes_knows_every_field_of_every_object(objects: dict[tuple[str, str], Any], tmp_path: Path) -> None:
    def refused(everything: list[Any]) -> str:
        file = tmp_path / "objects.yaml"
        file.write_text(yaml.safe_dump_all(everything))
        command = [IAC_VENV / "bin" / "kubernetes-validate", "--strict", "-k", KUBERNETES, file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    assert refused(list(objects.values())) == ""
    wrong = copy.deepcopy(objects["Deployment", "medley-api"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    assert "readynessProbe" in refused([wrong])


def test_every_container_is_held_as_tightly_as_it_can_be(objects: dict[tuple[str, str], Any]) -> None:
    everything = pods(objects)
    assert sorted(everything) == ["medley-api", "medley-gateway", "medley-reconcile", "medley-watch"]
    for spec in everything.values():
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"] + spec.get("initContainers", []):
            held = container["securityContext"]
            assert (held["allowPrivilegeEscalation"], held["readOnlyRootFilesystem"]) == (False, True)
            assert held["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys() & container["resources"][
                "limits"
            ].keys()
            assert "@sha256:" in container["image"]
            for variable in container.get("env", []):
                assert variable["name"] != "MEDLEY_DATABASE_URL" or "secretKeyRef" in variable["valueFrom"]


def test_two_of_each_serve_and_one_reconciles(objects: dict[tuple[str, str], Any]) -> None:
    assert objects["Deployment", "medley-api"]["spec"]["replicas"] == 2
    assert objects["StatefulSet", "medley-gateway"]["spec"]["replicas"] == 2
    assert objects["StatefulSet", "medley-reconcile"]["spec"]["replicas"] == 1
    assert {name for kind, name in objects if kind == "PodDisruptionBudget"} == {"medley-api", "medley-gateway"}
    for name in ("medley-api", "medley-gateway"):
        (container,) = pods(objects)[name]["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def test_medley_knows_what_every_container_is_told(objects: dict[tuple[str, str], Any]) -> None:
    """The real command reads the arguments, up to the one that asks for help."""
    from typer.testing import CliRunner

    from control.cli.main import app

    for spec in pods(objects).values():
        for container in spec["containers"] + spec.get("initContainers", []):
            if "args" in container:
                done = CliRunner().invoke(app, [*container["args"], "--help"])
                assert done.exit_code == 0, (container["args"], done.output)


def test_every_service_and_policy_leads_to_pods_that_there_are(objects: dict[tuple[str, str], Any]) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for (kind, _), one in objects.items() if kind.endswith("Set")
    ]
    labels += [objects["Deployment", "medley-api"]["spec"]["template"]["metadata"]["labels"]]
    for (kind, name), one in objects.items():
        if kind == "Service":
            matched = [own for own in labels if one["spec"]["selector"].items() <= own.items()]
            assert len(matched) == (name != "medley-nobody"), name
        if kind == "NetworkPolicy" and name != "medley-closed":
            assert one["spec"]["policyTypes"]
    closed = objects["NetworkPolicy", "medley-closed"]["spec"]
    assert (closed["policyTypes"], closed.get("ingress")) == (["Ingress", "Egress"], None)
    # The scheduled round is not what nodes are led to.
    assert objects["Service", "medley-reconcile"]["spec"]["selector"]["app.kubernetes.io/component"] == "reconcile"


def test_every_volume_that_is_mounted_is_there(objects: dict[tuple[str, str], Any]) -> None:
    claimed = {
        claim["metadata"]["name"]
        for claim in objects["StatefulSet", "medley-reconcile"]["spec"]["volumeClaimTemplates"]
    }
    for name, spec in pods(objects).items():
        there = {volume["name"] for volume in spec["volumes"]} | (claimed if name == "medley-reconcile" else set())
        for container in spec["containers"] + spec.get("initContainers", []):
            assert {mount["name"] for mount in container["volumeMounts"]} <= there, name


def test_wrong_values_are_refused_by_name() -> None:
    wrong: dict[str, Any] = {
        "image__digest": "latest", "database__existingSecret": "", "nodeCidrs": [], "api__replicas": 1,
        "api__hostname": "https://medley.example.com", "gateway__replicas": 0, "reconcile__address": "",
        "gateway__workers": 0, "ingress__tlsSecret": "", "watch__schedule": "hourly", "gatway": {},
        "reconcile__reachS": 1,
    }  # fmt: skip
    answers = helm(*(changed(**{path: value}) for path, value in wrong.items()))
    for path, made in zip(wrong, answers, strict=True):
        assert path.split("__")[-1] in made.get("error", ""), (path, made.get("error"))


OTHER: dict[str, Any] = {
    "image__repository": "other/medley", "image__digest": "sha256:" + 64 * "1", "image__pullSecrets": ["registry"],
    "database__existingSecret": "other", "database__cidrs": ["10.99.0.0/16"], "database__port": 6432,
    "clouds__existingSecret": "runpod", "clouds__skypilot": {"gcp": {"vpc_name": "other"}},
    "nodeCidrs": ["10.98.0.0/16"], "api__replicas": 3, "api__hostname": "other.example.com",
    "api__proxies": "10.97.0.0/16", "api__serviceAccountAnnotations": {"a": "b"},
    "gateway__replicas": 4, "gateway__maxReplicas": 9, "gateway__hostname": "else.example.com",
    "gateway__workers": 3, "reconcile__address": "10.1.2.3",
    "reconcile__reachS": 240, "reconcile__service__type": "NodePort", "reconcile__service__annotations": {"c": "d"},
    "reconcile__serviceAccountAnnotations": {"e": "f"}, "reconcile__state__storageClass": "fast",
    "reconcile__state__size": "31Gi", "shared__existingClaim": "mine", "shared__storageClass": "nfs",
    "shared__size": "7Gi", "watch__schedule": "*/5 * * * *", "ingress__className": "other",
    "ingress__annotations": {"g": "h"}, "ingress__tlsSecret": "tls", "ingress__namespace": "edge",
    "metrics__namespace": "monitoring", "scheduling__nodeSelector": {"pool": "control"},
    "scheduling__tolerations": [{"key": "control", "operator": "Exists"}], "scheduling__priorityClassName": "high",
    **{
        f"{part}__resources__{bound}__{of}": amount
        for part in ("api", "gateway", "reconcile")
        for bound in ("requests", "limits")
        for of, amount in (("cpu", "3"), ("memory", "9Gi"))
    },
}  # fmt: skip


def test_every_value_that_can_be_set_is_heard(rendered: dict[str, Any], tmp_path: Path) -> None:
    def leaves(value: object, path: str = "") -> set[str]:
        if isinstance(value, dict) and value:
            return set().union(*(leaves(each, f"{path}__{key}" if path else key) for key, each in value.items()))
        return {path}

    assert leaves(yaml.safe_load((CHART / "values.yaml").read_text())) == OTHER.keys()
    for path, made in zip(OTHER, helm(*(changed(**{path: value}) for path, value in OTHER.items())), strict=True):
        assert made.get("error") is None, (path, made)
        assert made["rendered"] != rendered["rendered"], path
    (made,) = helm(changed(**OTHER), lint=True)
    assert made["lint"] == []
    file = tmp_path / "all.yaml"
    file.write_text("\n---\n".join(text for name, text in made["rendered"].items() if name.endswith(".yaml")))
    command = [IAC_VENV / "bin" / "kubernetes-validate", "--strict", "-k", KUBERNETES, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_gateways_grow_where_they_may_and_the_api_asks_all_that_there_can_be(
    objects: dict[tuple[str, str], Any],
) -> None:
    assert not [kind for kind, _ in objects if kind == "HorizontalPodAutoscaler"]
    made, less = helm(changed(gateway__maxReplicas=5), changed(gateway__replicas=3, gateway__maxReplicas=2))
    found = {}
    for name, text in made["rendered"].items():
        if name.endswith(".yaml"):
            found |= {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}
    scaler = found["HorizontalPodAutoscaler", "medley-gateway"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 5)
    assert scaler["scaleTargetRef"]["kind"] == "StatefulSet"
    assert "replicas" not in found["StatefulSet", "medley-gateway"]["spec"], "an upgrade would set them back"
    (api,) = found["Deployment", "medley-api"]["spec"]["template"]["spec"]["containers"]
    assert sum(argument.startswith("--gateway=") for argument in api["args"]) == 5
    assert "maxReplicas: 3" in "\n".join(less["rendered"].values())


def test_what_may_be_left_out_and_added_renders() -> None:
    more = {"shared__existingClaim": "mine", "clouds__existingSecret": "runpod", "image__pullSecrets": ["registry"]}
    (made,) = helm(changed(**more, reconcile__service={"type": "ClusterIP"}, api__replicas=3))
    text = "\n".join(made["rendered"].values())
    assert "claimName: mine" in text
    assert "kind: PersistentVolumeClaim" not in text
    assert "secretRef: {name: runpod}" in text
    assert "loadBalancerSourceRanges" not in text
