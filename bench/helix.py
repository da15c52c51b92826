"""One 70B model on Helix's pool: Helix's own placement against an allocation by Medley (Coral, section 6.6).

    python -m bench.helix

Helix rents all 42 nodes; its throughput is the maximum flow through its published placement with its own measured
layer times, at its own median latencies. Medley rents what it needs of the same nodes under those latencies as
objectives, first at Helix's throughput (what it costs), then at the highest rate that the pool can serve. Medley's
capacities come from its estimated cost model and carry the utilisation cap; Helix's are held at 100 %.
"""

from bench.scenarios import world_session
from control.checker import check
from control.planner import solve
from control.planning.recording import versioned
from policies.helix import FixedPool, PlacedNode, helix_pool
from policies.scale_down import scale_demand, scale_to_feasible
from templates_lib.helix_cluster import LAYERS, SHAPE, helix_nodes
from templates_lib.plan import Plan
from templates_lib.shapes import load_shape
from templates_lib.snapshot import Snapshot

AMPLE = 4.0
"""Times the example's rate: more than the pool can serve."""


def main() -> None:
    with world_session("helix-pool.yaml") as (_, recording, templates):
        snapshot = recording.snapshot

        def plan(view: Snapshot) -> Plan:
            found = solve(view, templates.library)
            violations = check(found, view)
            if violations:
                raise SystemExit(f"plan fails the check: {violations[0]}")
            return found

        helix = _helix(snapshot)
        offered = snapshot.demand[0].requests_per_s
        same = plan(versioned(scale_demand(snapshot, helix.requests_per_s / offered)))
        most = scale_to_feasible(plan, versioned(scale_demand(snapshot, AMPLE)))
    print(f"{'':34}{'requests/s':>12}{'$/h':>8}{'nodes':>7}")
    _print("Helix, all nodes", helix.requests_per_s, helix.usd_per_hour, len(helix_nodes()))
    if same.unmet:
        print(f"Medley cannot serve Helix's rate: {sum(same.unmet.values()):.2f} requests/s are unmet")
    else:
        _print("Medley at Helix's rate", helix.requests_per_s, same.usd_per_hour, sum(o.nodes for o in same.offers))
        print(f"Medley costs {100 * (1 - same.usd_per_hour / helix.usd_per_hour):.0f} % less at the same rate")
    if most.plan is not None:
        rate = most.share * AMPLE * offered
        _print(
            "Medley at the pool's highest rate", rate, most.plan.usd_per_hour, sum(o.nodes for o in most.plan.offers)
        )


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


def _print(name: str, requests_per_s: float, usd_per_hour: float, nodes: int) -> None:
    print(f"{name:34}{requests_per_s:12.2f}{usd_per_hour:8.2f}{nodes:7}")


if __name__ == "__main__":
    main()
