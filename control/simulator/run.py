"""A scenario, simulated: the control plane over its logs first, then every request over the fleet that this gave.

What a control plane does depends on the load that is offered (metered when it comes) and on the market, not on how
serving went; so the two are simulated one after the other.
"""

from collections.abc import Mapping

from control.simulator.epochs import EpochCutter
from control.simulator.fleet_history import FleetHistory
from control.simulator.fleet_run import Around, run_fleet
from control.simulator.log_cloud import LogCloud
from control.simulator.plane_log import PlaneLog
from control.simulator.result import Facts, SimulatedModel, SimulationResult
from control.simulator.scenario import Scenario
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate as serve


def simulate(scenario: Scenario, around: Around, settings: ServingSettings | None = None) -> SimulationResult:
    """Raises ValueError and LookupError for a fleet that cannot be planned at all."""
    began = around.clock()
    plane = run_fleet(scenario, around)
    planned = around.clock()
    history = FleetHistory(plane.log, plane.clouds, scenario.world.recipe, scenario.length_s)
    fleet = history.timeline()
    served = serve(scenario.traffic.requests, fleet, settings or ServingSettings())
    finished = around.clock()
    nodes = history.nodes()
    cutter = EpochCutter(scenario.traffic, scenario.world.recipe.served, scenario.replan_s, scenario.length_s)
    spent = {span: _spent(plane.clouds, span) for span in cutter.spans()}
    return SimulationResult(
        facts=_facts(scenario, plane.log),
        models=tuple(
            SimulatedModel(model.name, model.slo, tuple(model.class_id(phase) for phase in model.phases))
            for model in scenario.world.recipe.served
        ),
        requests=scenario.traffic.requests,
        served=served,
        fleet=fleet,
        epochs=cutter.cut(plane.log.plans, fleet.instances, spent),
        instances=history.instances(),
        nodes=nodes,
        events=history.events(),
        spent_usd=sum(node.spent_usd for node in nodes),
        plane_wall_s=planned - began,
        serving_wall_s=finished - planned,
    )


def _spent(clouds: Mapping[str, LogCloud], span: tuple[float, float]) -> float:
    return sum(cloud.spent_between_usd(*span) for cloud in clouds.values())


def _facts(scenario: Scenario, log: PlaneLog) -> Facts:
    last = log.plans[-1] if log.plans else None
    return Facts(
        scenario.name,
        scenario.world.name,
        scenario.strategy,
        scenario.demand.value,
        scenario.start.isoformat(),
        scenario.length_s,
        scenario.seed,
        scenario.replan_s,
        last.cost_model if last else "",
        scenario.sources,
        tuple(dict.fromkeys((*scenario.notes, *scenario.market.notes, *(last.notes if last else ())))),
    )
