"""A sound plan passes; every single lie in it is found."""

import ast
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control.checker import CheckInputError, Claim, check, claims_of, read_checkpoints, read_files
from templates_lib.models.catalogue import load_models
from templates_lib.values.disks import Disks
from templates_lib.values.engines import support_of
from templates_lib.values.offer import Market
from templates_lib.values.placement import Placement
from templates_lib.values.plan import Flow, Plan, PlannedInstance, PlannedOffer, Reason
from templates_lib.values.settings import Guardrails, Mode, Replicas, Settings, Survive
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.stored_weights import StoredMatrices, StoredWeights
from templates_lib.values.supply import SupplyPool
from templates_lib.values.template import ServingTemplate, template_id
from tests import factories as make

A, B = "aws/a", "aws/b"
L4, H100 = "L4:1/n25", "H100:1/n100"
L4_A = make.offer(L4, A, 0.8, count=1)
L4_B = make.offer(L4, B, 0.4, count=None, market=Market.SPOT)
H100_B = make.offer(H100, B, 2.0, count=3, market=Market.SPOT, interruptions_per_hour=0.01)
SETTINGS = Settings(utilisation_cap=0.8, startup_minutes=6.0, adjustment_interval_minutes=60.0, restart_hours=0.1)

PREFILL = PlannedInstance("p", "m", "prefill", A, Market.ON_DEMAND, 2, 1, {L4: 1}, {"m/prefill": 700.0}, 1.6)
DECODE = PlannedInstance("d", "m", "decode", B, Market.SPOT, 1, 0, {L4: 1, H100: 1}, {"m/decode": 300.0}, 2.4)
FLOW = Flow("m/route", (A, B), 10.0, 10 * 3600 * 1e6 / 1e9 * 0.02)
RENTED = (
    PlannedOffer(L4_A.key, L4, 2, 1, 0.8),
    PlannedOffer(L4_B.key, L4, 1, 0, 0.4),
    PlannedOffer(H100_B.key, H100, 1, 0, 2.0),
)
INIT = 0.1 * (0.8 + 2.4)
RISK = 0.1 * 0.01 * 2.4
LIBRARY = make.library(
    [make.work_class("m/prefill"), make.work_class("m/decode")],
    {"p": ({L4: 1}, [{"m/prefill": 700.0}]), "d": ({L4: 1, H100: 1}, [{"m/decode": 300.0}])},
)


def world(**changes: Any) -> Snapshot:
    base = make.snapshot(
        [L4_A, L4_B, H100_B],
        [make.route("m", {"m/prefill": 100.0, "m/decode": 20.0}, bytes_per_edge=1e6)],
        {"m": 10.0},
        traffic={(A, B): 0.02},
        instances=[make.running("p", [L4_A])],
        settings=SETTINGS,
    )
    return replace(base, **changes)


def sound(**changes: Any) -> Plan:
    plan = make.plan((PREFILL, DECODE), RENTED, (FLOW,), init_usd=INIT, spot_risk_usd_per_hour=RISK)
    return replace(plan, **changes)


def rules(plan: Plan, snapshot: Snapshot, **options: Any) -> set[str]:
    return {v.rule for v in check(plan, snapshot, **options)}


def with_settings(**changes: Any) -> Snapshot:
    return world(settings=replace(SETTINGS, **changes))


def test_a_sound_plan_has_no_violation_with_or_without_its_library() -> None:
    assert check(sound(), world()) == ()
    assert check(sound(), world(), claims_of(LIBRARY, ["p", "d"])) == ()


def with_instance(index: int, **changes: Any) -> Plan:
    instances = list(sound().instances)
    instances[index] = replace(instances[index], **changes)
    return sound(instances=tuple(instances))


def with_offer(index: int, **changes: Any) -> Plan:
    offers = list(RENTED)
    offers[index] = replace(offers[index], **changes)
    return sound(offers=tuple(offers))


def with_flow(**changes: Any) -> Plan:
    return sound(flows=(replace(FLOW, **changes),))


@pytest.mark.parametrize(
    ("rule", "plan"),
    [
        ("version", sound(snapshot_version="other")),
        ("version", sound(library_version="other")),
        ("price", with_offer(0, usd_per_hour=0.7)),
        ("rent", sound(rent_usd_per_hour=3.9)),
        ("rent", with_instance(0, usd_per_hour=1.5)),
        ("cost", with_instance(0, usd_per_hour=1.5)),
        ("total", sound(usd_per_hour=4.0)),
        ("objective", sound(objective=4.0)),
        ("cost", sound(init_usd=0.0)),
        ("cost", sound(spot_risk_usd_per_hour=0.0)),
        ("bound", sound(bound=99.0)),
        ("gap", sound(bound=1.0)),
        ("status", sound(status="partial")),
        ("status", sound(status="splendid")),
        ("status", sound(bound=sound().objective / 2, gap=0.5)),
        ("offer", with_offer(0, offer="aws/a/none/on-demand")),
        ("offer", with_offer(0, node_config=H100)),
        ("offer", sound(offers=(*RENTED, RENTED[0]))),
        ("held", with_offer(0, held=0)),
        ("supply", with_offer(0, nodes=3)),
        ("supply", with_offer(0, nodes=-1)),
        ("supply", with_offer(1, nodes=5)),
        ("node_accounting", with_offer(1, nodes=2)),
        ("node_accounting", with_instance(0, nodes={L4: 2})),
        ("node_accounting", with_instance(0, zone=B)),
        ("node_accounting", with_instance(1, market=Market.ON_DEMAND)),
        ("count", with_instance(0, count=0)),
        ("running", with_instance(0, running=2)),
        ("duplicate", sound(instances=(PREFILL, PREFILL, DECODE))),
        ("flow", with_flow(route="m/none")),
        ("flow", with_flow(zones=(A,))),
        ("flow", with_flow(requests_per_s=-1.0)),
        ("crossing", with_flow(zones=(B, A))),
        ("traffic", with_flow(traffic_usd_per_hour=0.0)),
        ("traffic", sound(traffic_usd_per_hour=0.0)),
        ("demand", with_flow(requests_per_s=9.0)),
        ("demand", sound(unmet={"m/chat": 1.0})),
        ("unmet", sound(unmet={"m/chat": 11.0})),
        ("unmet", sound(unmet={"other/chat": 1.0})),
        ("capacity", with_flow(zones=(A, A))),
        ("capacity", with_instance(1, units_per_s={"m/decode": 200.0})),
        ("number", sound(gap=float("nan"))),
        ("number", with_instance(0, units_per_s={"m/prefill": float("inf")})),
    ],
)
def test_one_lie_is_found(rule: str, plan: Plan) -> None:
    assert rule in rules(plan, world())


@pytest.mark.parametrize(
    ("rule", "snapshot"),
    [
        ("pool", world(pools=(SupplyPool("vcpus", 15.0, "vCPU", {L4_A.key: 4.0, H100_B.key: 8.0}),))),
        ("supply", with_settings(guardrails=Guardrails(max_unproven_nodes=0))),
        ("budget", with_settings(guardrails=Guardrails(max_usd_per_hour=4.5))),
        ("spot_share", with_settings(guardrails=Guardrails(max_spot_share=0.5))),
        ("zone_share", with_settings(guardrails=Guardrails(max_zone_share=0.6))),
        ("replicas", with_settings(guardrails=Guardrails(replicas={"m/prefill": Replicas(min=3)}))),
        ("replicas", with_settings(guardrails=Guardrails(replicas={"m/prefill": Replicas(max=1)}))),
        ("survive", with_settings(survive=Survive.INSTANCE, survive_share=0.6)),
        ("survive", with_settings(survive=Survive.ZONE, survive_share=0.1)),
        ("capacity", with_settings(utilisation_cap=0.7)),
        ("cost", with_settings(startup_minutes=12)),
        ("cost", with_settings(restart_hours=0.2)),
        ("flow", with_settings(mode=Mode.PAPER)),
        ("running", world(instances=())),
        ("running", world(instances=(make.running("p", [L4_A], state="draining"),))),
    ],
)
def test_a_limit_that_the_plan_breaks_is_found(rule: str, snapshot: Snapshot) -> None:
    assert rule in rules(sound(), snapshot)


@pytest.mark.parametrize(
    "snapshot",
    [
        world(pools=(SupplyPool("vcpus", 16.0, "vCPU", {L4_A.key: 4.0, H100_B.key: 8.0}),)),
        with_settings(guardrails=Guardrails(max_usd_per_hour=4.72)),
        with_settings(guardrails=Guardrails(replicas={"m/prefill": Replicas(min=2, max=2)})),
        with_settings(survive=Survive.INSTANCE, survive_share=0.0),
    ],
)
def test_a_limit_that_the_plan_just_keeps_is_kept(snapshot: Snapshot) -> None:
    assert check(sound(), snapshot) == ()


def test_a_minimum_of_replicas_that_supply_cannot_give_must_be_admitted() -> None:
    snapshot = with_settings(guardrails=Guardrails(replicas={"m/prefill": Replicas(min=3)}))
    admitted = Reason("replicas", "2 of 3 instances: aws/a has no more L4", "m/prefill")
    assert check(sound(reasons=(admitted,)), snapshot) == ()
    assert "replicas" in rules(sound(reasons=(replace(admitted, subject="m/decode"),)), snapshot)


def test_surviving_an_instance_counts_what_is_left_of_every_leg() -> None:
    spare = replace(PREFILL, count=4, usd_per_hour=3.2)
    twice = replace(DECODE, count=2, usd_per_hour=4.8)
    plan = sound(instances=(spare, twice))
    lenient = with_settings(survive=Survive.INSTANCE, survive_share=1.0)
    assert "survive" not in rules(plan, lenient)
    assert "survive" in rules(sound(instances=(spare, DECODE)), lenient)


def test_another_route_may_carry_the_demand_after_a_loss() -> None:
    """What is lost with the only decode instance goes to the aggregated route, which no flow uses now."""
    both = PlannedInstance("b", "m", "aggregated", A, Market.ON_DEMAND, 1, 0, {L4: 1}, {"m/aggregated": 13.0}, 0.8)
    routes = (*world().routes, make.route("m", {"m/aggregated": 1.0}, name="m/aggregated"))
    snapshot = replace(with_settings(survive=Survive.INSTANCE), routes=routes)
    assert "survive" not in rules(sound(instances=(PREFILL, DECODE, both)), snapshot)
    assert "survive" in rules(sound(), snapshot)


def test_paper_mode_adds_capacity_over_zones_and_charges_no_traffic() -> None:
    plan = make.plan(
        (PREFILL, DECODE), RENTED, (Flow("m/route", ("", ""), 10.0, 0.0),), init_usd=INIT, spot_risk_usd_per_hour=RISK
    )
    snapshot = with_settings(mode=Mode.PAPER)
    assert check(plan, snapshot) == ()
    assert "capacity" in rules(replace(plan, instances=(replace(PREFILL, count=1), DECODE)), snapshot)


def test_several_offers_of_one_kind_may_share_an_instance_s_price() -> None:
    dear = make.offer(L4, A, 1.2, instance_type="dear")
    offers = (PlannedOffer(L4_A.key, L4, 1, 1, 0.8), PlannedOffer(dear.key, L4, 1, 0, 1.2), *RENTED[1:])
    instances = (replace(PREFILL, usd_per_hour=2.0), DECODE)
    snapshot = replace(world(), offers=(*world().offers, dear))
    for new_node_usd in (0.8, 1.2):
        init = 0.1 * (new_node_usd + 2.4)
        plan = make.plan(instances, offers, (FLOW,), init_usd=init, spot_risk_usd_per_hour=RISK)
        assert check(plan, snapshot) == ()


def test_partial_plans_are_sound_when_they_say_so() -> None:
    flow = replace(FLOW, requests_per_s=9.0, traffic_usd_per_hour=FLOW.traffic_usd_per_hour * 0.9)
    plan = make.plan(
        (PREFILL, DECODE),
        RENTED,
        (flow,),
        init_usd=INIT,
        spot_risk_usd_per_hour=RISK,
        unmet={"m/chat": 1.0},
        status="partial",
    )
    assert check(plan, world()) == ()
    assert "status" in rules(replace(plan, status="optimal"), world())


def test_the_template_id_is_the_hash_of_what_the_plan_shows() -> None:
    placement = Placement("pipeline", 1, {"stages": []})
    name = template_id("m", "r1", "bf16", "vllm", "lockstep-v1", {L4: 1}, placement)
    template = ServingTemplate(name, "m", "r1", "bf16", "vllm", "lockstep-v1", {L4: 1}, placement)
    honest = replace(PREFILL, template_id=name).with_template(template)
    snapshot = replace(world(), instances=(make.running(name, [L4_A]),))
    assert check(sound(instances=(honest, DECODE)), snapshot) == ()
    other = replace(honest, placement=Placement("pipeline", 2, {"stages": []}))
    assert "template_id" in rules(sound(instances=(other, DECODE)), snapshot)


def test_engines_are_held_to_what_they_declare() -> None:
    def on(engine: str, dtype: str, family: str = "") -> set[str]:
        placement = Placement("pipeline", 1, {"stages": []})
        parts = ("m", "r1", dtype, engine, "lockstep-v1", {L4: 1}, placement)
        name = template_id(*parts)
        planned = replace(PREFILL, template_id=name).with_template(ServingTemplate(name, *parts))
        snapshot = replace(world(), instances=(make.running(name, [L4_A]),))
        matrices = StoredMatrices("mxfp4", 1.0, 17 / 32)
        none = StoredMatrices("bf16", 0.0, 2.0)
        checkpoints = {"m": StoredWeights(family, none, none, none, matrices)} if family else {}
        found = check(sound(instances=(planned, DECODE)), snapshot, checkpoints=checkpoints)
        return {each.where.rpartition(".")[2] for each in found if each.rule == "engine"}

    assert on("torch", "bf16") == on("sglang", "nvfp4") == on("vllm-stage", "mxfp4", "mamba") == set()
    assert on("vllm", "mxfp4") == on("vllm", "mxfp4", "gpt_oss") == set()
    assert on("vllm", "mxfp4", "mamba") == {"engine"}
    assert on("torch", "nvfp4") == set()
    assert on("torch", "fp16") == {"dtype"}  # it makes bf16 of them: no plan of this release says that it keeps them
    assert on("torch", support_of("torch").weights["mxfp4"], "gpt_oss") == set()
    assert on("torch", "mxfp4", "mamba") == {"engine"}
    assert on("torch", "mxfp4", "llama") == {"engine"}  # it reads mxfp4 of gpt_oss alone


def test_an_engine_is_not_planned_with_attention_that_it_does_not_run() -> None:
    def on(engine: str, **attention: Any) -> set[str]:
        placement = Placement("pipeline", 1, {"stages": []})
        parts = ("m", "r1", "bf16", engine, "lockstep-v1", {L4: 1}, placement)
        name = template_id(*parts)
        planned = replace(PREFILL, template_id=name).with_template(ServingTemplate(name, *parts))
        snapshot = replace(world(), instances=(make.running(name, [L4_A]),))
        checkpoints = {"m": StoredWeights("qwen2", *[StoredMatrices("bf16", 1.0, 2.0)] * 4, **attention)}
        return rules(sound(instances=(planned, DECODE)), snapshot, checkpoints=checkpoints)

    assert on("vllm", head_size=128) == on("vllm") == on("torch", head_size=20, mixes_windows=True) == set()
    assert on("vllm", head_size=20) == on("vllm", mixes_windows=True) == {"engine"}
    assert on("vllm", head_size=48, is_latent=True) == {"engine"}


def test_start_up_and_disks_are_those_of_the_engines_of_an_instance() -> None:
    disks = Disks({"aws": 0.0}, {"m": 200, "m@torch": 100})
    settings = replace(SETTINGS, install_minutes={"vllm": 6.0})
    snapshot = replace(world(settings=settings), disks=disks)
    quick = tuple(replace(each, engines="torch", disk_gib=100) for each in sound().instances)
    assert check(sound(instances=quick), snapshot) == ()
    late = tuple(replace(each, engines="vllm", disk_gib=200) for each in quick)
    assert rules(sound(instances=late), snapshot) == {"cost"}
    plan = make.plan(late, RENTED, (FLOW,), init_usd=2 * INIT, spot_risk_usd_per_hour=RISK)
    assert check(plan, snapshot) == ()
    unsaid = make.plan(
        tuple(replace(each, engines="") for each in late), RENTED, (FLOW,), init_usd=2 * INIT,
        spot_risk_usd_per_hour=RISK,
    )  # fmt: skip
    assert check(unsaid, snapshot) == (), "of engines that are not said, those that take longest"
    small = tuple(replace(each, disk_gib=100) for each in late)
    assert "disks" in rules(replace(plan, instances=small), snapshot)


def test_a_model_is_cut_as_its_engine_cuts_it() -> None:
    def found(engine: str, **changes: int) -> set[str]:
        node = {"count": 1, "tp": 2, "dp": 1, "pp": 1, "ep": 1, "batch_cap": 8, "chunk_tokens": 64, "kv_blocks": 9}
        nodes = [{"config": L4, "weight": 1.0, **node, **changes}]
        stages = [{"first_layer": 0, "layers": 3, "first": True, "last": True, "nodes": nodes}]
        parts = ("m", "r1", "bf16", engine, "lockstep-v1", {L4: 1}, Placement("pipeline", 1, {"stages": stages}))
        name = template_id(*parts)
        made = replace(PREFILL, template_id=name).with_template(ServingTemplate(name, *parts))
        snapshot = replace(world(), instances=(make.running(name, [L4_A]),))
        violations = check(sound(instances=(made, DECODE)), snapshot)
        return {each.expected for each in violations if each.rule == "engine"}

    assert found("vllm") == found("torch", batch_cap=0) == found("torch", dp=2) == set()
    assert found("vllm", batch_cap=0) == found("vllm", batch_cap=0, tp=1, pp=2) == set()
    for changes, how in (({"count": 2}, "several nodes"), ({"dp": 2}, "several times")):
        (expected,) = found("vllm", **changes)
        assert how in expected


def test_a_recorded_snapshot_says_which_checkpoints_it_was_planned_from(tmp_path: Path) -> None:
    stored = load_models()["gpt-oss-20b"].stored
    served = [{"name": "a", "model": {"id": "m", "layers": 3, "stored": stored}}, {"model": {"id": "old"}}]
    file = tmp_path / "snapshot.json"
    file.write_bytes(msgspec.json.encode({"snapshot": world(), "recipe": {"pipeline": {"served": served, "n_max": 2}}}))
    assert read_checkpoints(file) == {"m": stored}
    file.write_bytes(msgspec.json.encode(world()))
    assert read_checkpoints(file) == {}


@pytest.mark.parametrize(
    "claims",
    [
        {"p": Claim({L4: 1}, ({"m/prefill": 700.0},))},
        {"p": Claim({L4: 1}, ({"m/prefill": 699.0},)), "d": Claim({L4: 1, H100: 1}, ({"m/decode": 300.0},))},
        {"p": Claim({L4: 2}, ({"m/prefill": 700.0},)), "d": Claim({L4: 1, H100: 1}, ({"m/decode": 300.0},))},
        {"p": Claim({L4: 1}, ({"m/prefill": 700.0},), "vllm"), "d": Claim({L4: 1, H100: 1}, ({"m/decode": 300.0},))},
    ],
    ids=["missing", "slower", "other nodes", "another engine"],
)
def test_a_plan_is_held_to_the_library(claims: dict[str, Claim]) -> None:
    assert rules(sound(), world(), claims=claims) == {"template"}


def test_mixtures_of_operating_points_are_allowed_and_no_more() -> None:
    claim = Claim({L4: 1}, ({"a": 100.0, "b": 0.0}, {"b": 50.0}, {"a": 60.0, "b": 30.0}))
    assert claim.allows({"a": 80.0, "b": 15.0})
    assert claim.allows({"a": 30.0, "b": 20.0})
    assert not claim.allows({"a": 80.0, "b": 16.0})
    assert not claim.allows({"a": 1.0, "b": 50.0})
    assert not claim.allows({"c": 1.0})


def hashed() -> Snapshot:
    """The world under the version that its content has."""
    content = msgspec.json.encode(replace(world(), version=""), order="sorted")
    return world(version=hashlib.blake2b(content, digest_size=16).hexdigest())


def sound_of_file() -> Plan:
    return sound(snapshot_version=hashed().version)


class TestFiles:
    def write(self, folder: Path, plan: Any, snapshot: Any) -> tuple[Path, Path]:
        paths = folder / "plan.json", folder / "snapshot.json"
        for path, value in zip(paths, (plan, snapshot), strict=True):
            path.write_bytes(value if isinstance(value, bytes) else msgspec.json.encode(value))
        return paths

    def test_extra_keys_and_a_wrapped_snapshot_are_read(self, tmp_path: Path) -> None:
        plan = msgspec.to_builtins(sound_of_file()) | {"baselines": {"homo": {}}}
        plan["instances"][0]["stages"] = []
        assert check(*read_files(*self.write(tmp_path, plan, {"name": "x", "snapshot": hashed()}))) == ()
        assert check(*read_files(*self.write(tmp_path, plan, hashed()))) == ()

    def test_a_lie_in_a_file_is_found(self, tmp_path: Path) -> None:
        plan = msgspec.to_builtins(sound_of_file())
        plan["usd_per_hour"] *= 0.9
        found = check(*read_files(*self.write(tmp_path, plan, hashed())))
        assert {v.rule for v in found} == {"total", "objective"}
        assert all(v.where in v.text for v in found)

    def test_a_snapshot_without_version_is_named_by_its_content(self, tmp_path: Path) -> None:
        nameless = replace(world(), version="")
        paths = self.write(tmp_path, sound(), nameless)
        (violation,) = check(*read_files(*paths))
        plan = sound(snapshot_version=violation.expected)
        assert check(*read_files(*self.write(tmp_path, plan, nameless))) == ()

    def test_a_snapshot_that_was_edited_is_refused(self, tmp_path: Path) -> None:
        cheaper = replace(hashed(), offers=(replace(L4_A, usd_per_hour=0.1), L4_B, H100_B))
        with pytest.raises(CheckInputError, match=r"snapshot.json: was edited: its content hashes to \w{32}, but"):
            read_files(*self.write(tmp_path, sound_of_file(), cheaper))

    @pytest.mark.parametrize(
        ("damage", "problem"),
        [
            (lambda b: b[: len(b) // 2], "plan.json: is not a plan .*truncated"),
            (lambda b: b.replace(b'"gap":0.0', b'"gap":NaN'), "plan.json: is not a plan .*malformed"),
            (lambda b: b.replace(b'"gap":0.0', b'"gap":null'), r"got `null` - at `\$.gap`"),
            (lambda b: b.replace(b'"gap":0.0,', b""), "missing required field `gap`"),
            (lambda b: b.replace(b'"count":2', b'"count":"two"'), r"at `\$.instances\[0\].count`"),
            (lambda b: b"[" + b + b"]", "is not a plan"),
            (lambda b: b"\xff" + b, "is not a plan"),
        ],
    )
    def test_a_damaged_plan_is_a_clear_error(
        self, tmp_path: Path, damage: Callable[[bytes], bytes], problem: str
    ) -> None:
        paths = self.write(tmp_path, damage(msgspec.json.encode(sound_of_file())), hashed())
        with pytest.raises(CheckInputError, match=problem):
            check(*read_files(*paths))

    def test_a_missing_or_wrong_snapshot_is_a_clear_error(self, tmp_path: Path) -> None:
        plan, snapshot = self.write(tmp_path, sound_of_file(), b"[]")
        with pytest.raises(CheckInputError, match=r"snapshot.json: is not a snapshot"):
            check(*read_files(plan, snapshot))
        with pytest.raises(CheckInputError, match=r"none.json: cannot be read"):
            check(*read_files(plan, tmp_path / "none.json"))
        broken = msgspec.to_builtins(hashed())
        broken["routes"][0]["edges"][0]["target"] = 7
        with pytest.raises(CheckInputError, match=r"snapshot.json: an edge of route 'm/route'"):
            check(*read_files(*self.write(tmp_path, sound_of_file(), broken)))


def test_the_checker_uses_no_code_of_the_planner_or_the_library_build() -> None:
    values = (
        *("engine", "library", "offer", "placement", "plan", "settings", "snapshot", "stored_weights", "template"),
        "work",
    )
    allowed = ("control.checker", *(f"templates_lib.values.{v}" for v in values))
    ours = ("control", "policies", "templates_lib", "agents", "migrations")
    for path in (Path(__file__).parents[2] / "control" / "checker").glob("*.py"):
        imports = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        for module in (n.module or "" for n in imports):
            assert not module.startswith(ours) or module.startswith(allowed), f"{path.name} imports {module}"
