"""Preflight of plans that are carried out without anybody looking at them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from control.cloud.port import Cloud
from control.offers.cloud_reader import CloudReader
from control.planning.world import World
from control.preflight.finding import failing
from control.preflight.planned import Planned
from control.preflight.site import Site
from control.preflight.walk import preflight
from control.reconcile.clouds import Clouds
from templates_lib.values.plan import Plan

GOOD_FOR_S = 3600.0
"""How long it is known of models, clouds, regions and numbers of nodes that nothing of them fails."""


@dataclass(slots=True)
class LaunchCheck:
    """Finds what fails of a plan that rents. Called from threads of the effects; two that look at once find the
    same."""

    clouds: Clouds
    address: str
    images: Mapping[str, str]
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    readers: Mapping[str, CloudReader] = field(default_factory=dict)
    """As of `Site`."""
    _passed_s: dict[object, float] = field(default_factory=dict)

    def __call__(self, world: World, plan: Plan) -> tuple[str, ...]:
        """Return why nodes of the plan could not be launched; empty: nothing is known that speaks against it."""
        planned = Planned(world, plan)
        if not planned.elsewhere:
            return ()
        of_models = tuple(
            (each.name, each.model.id, planned.engines(each, cloud), world.weights.get(each.model.id), cloud)
            for each, clouds in planned.served()
            for cloud in clouds
        )
        nodes = tuple(sorted(plan.nodes().items()))  # quotas that do for these may not for more
        about = (of_models, tuple((cloud, planned.regions(cloud)) for cloud in planned.elsewhere), nodes)
        now_s = self.monotonic()
        if now_s - self._passed_s.get(about, -GOOD_FOR_S) < GOOD_FOR_S:
            return ()
        adapters: dict[str, Callable[[], Cloud]] = {
            cloud: partial(self.clouds.need, cloud) for cloud in planned.elsewhere if self.clouds.has(cloud)
        }
        found = preflight(planned, Site(self.address, adapters, self.clock(), self.images, self.readers))
        failed = failing(found)
        if not failed:
            self._passed_s = {key: at for key, at in self._passed_s.items() if now_s - at < GOOD_FOR_S} | {about: now_s}
        return failed
