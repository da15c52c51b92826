"""From the policy and solver sections of a spec file to what the planner is asked."""

from control.fleet_file.schema import FleetFile
from templates_lib.values.settings import Guardrails, Replicas, Settings, WorkLimits


def settings_of(fleet: FleetFile) -> Settings:
    policy, solver = fleet.policy, fleet.solver
    return Settings(
        mode=policy.mode,
        utilisation_cap=policy.utilisation_cap,
        startup_minutes=policy.startup_minutes,
        adjustment_interval_minutes=policy.adjustment_interval_minutes,
        restart_hours=policy.restart_hours,
        survive=policy.survive,
        survive_share=policy.survive_share,
        guardrails=Guardrails(
            max_usd_per_hour=policy.max_usd_per_hour,
            max_spot_share=policy.max_spot_share,
            replicas={key: Replicas(r.min, r.max) for key, r in policy.replicas.items()},
            max_unproven_nodes=policy.max_unproven_nodes,
            max_zone_share=policy.max_zone_share,
        ),
        limits=WorkLimits(
            gap=solver.gap,
            incumbent_columns=solver.incumbent_columns,
            proof_columns=solver.proof_columns,
            nodes=solver.nodes,
            simplex_iterations=solver.simplex_iterations,
            wall_clock_s=solver.wall_clock_s,
        ),
        seed=solver.seed,
    )
