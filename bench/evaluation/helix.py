"""One 70B model on Helix's pool: Helix's own placement against an allocation by Medley (Coral, section 6.6).

Helix rents all 42 nodes; its throughput is the maximum flow through its published placement with its own measured
layer times, at its own median latencies. Medley rents what it needs of the same nodes under those latencies as
objectives, first at Helix's throughput (what it costs), then at the highest rate that the pool can serve. Medley's
capacities come from its estimated cost model and carry the utilisation cap; Helix's are held at 100 %.
"""

from pathlib import Path

from bench.evaluation.campaign import Campaign
from bench.evaluation.helix_cluster import LAYERS, SHAPE, helix_nodes
from bench.evaluation.helix_pool import FixedPool, PlacedNode, helix_pool
from bench.evaluation.methods import checked_plan
from bench.evaluation.published import HELIX_CHEAPER, HELIX_FASTER
from bench.evaluation.scale_down import scale_demand, scale_to_feasible
from bench.evaluation.table import Table
from bench.scenarios import world_session
from control.planning.recording import versioned
from templates_lib.load.shapes import load_shape
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

AMPLE = 4.0
"""Times the example's rate: more than the pool can serve."""


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether Medley serves Helix's rate, for less."""
    del campaign  # the pool is a set-up of its own
    with world_session("helix-pool.yaml") as (_, recording, templates):
        snapshot = recording.snapshot

        def plan(view: Snapshot) -> Plan:
            return checked_plan("medley", view, templates.library)

        helix = _helix(snapshot)
        offered = snapshot.demand[0].requests_per_s
        same = plan(versioned(scale_demand(snapshot, helix.requests_per_s / offered)))
        most = scale_to_feasible(plan, versioned(scale_demand(snapshot, AMPLE)))
    print(f"Section 6.6: Helix's pool (paper: {HELIX_CHEAPER} cheaper at a rate {HELIX_FASTER} higher)")
    table = Table("helix", ("", "requests/s", "$/h", "nodes", "$ per 1,000 requests"))
    _add(table, "Helix, all nodes", helix.requests_per_s, helix.usd_per_hour, len(helix_nodes()))
    if not same.unmet:
        _add(table, "Medley at Helix's rate", helix.requests_per_s, same.usd_per_hour, _nodes(same))
    if most.plan is not None:
        rate = most.share * AMPLE * offered
        _add(table, "Medley at the pool's highest rate", rate, most.plan.usd_per_hour, _nodes(most.plan))
    table.show(folder)
    return not same.unmet and same.usd_per_hour < helix.usd_per_hour


def _helix(snapshot: Snapshot) -> FixedPool:
    shape = load_shape(SHAPE)
    price = {o.node_config.partition("/")[0]: o.usd_per_hour for o in snapshot.offers}
    placed = [
        PlacedNode(
            node.config,
            node.first_layer,
            node.layers,
            node.requests_per_s(shape.mean_prompt_tokens, shape.mean_output_tokens),
            price[node.config.partition("/")[0]],
        )
        for node in helix_nodes()
    ]
    return helix_pool(placed, LAYERS)


def _nodes(plan: Plan) -> int:
    return sum(offer.nodes for offer in plan.offers)


def _add(table: Table, name: str, requests_per_s: float, usd_per_hour: float, nodes: int) -> None:
    per_thousand = usd_per_hour / requests_per_s / 3600 * 1000
    table.add(name, f"{requests_per_s:.2f}", f"{usd_per_hour:.2f}", f"{nodes}", f"{per_thousand:.2f}")
