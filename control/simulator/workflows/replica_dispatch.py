"""The paper's baselines (section 8): services have replicas, and a call goes to one of its service, by itself."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from control.simulator.workflows.place_cluster import PlaceCluster
from control.simulator.workflows.simulated_run import OpenCall, OpenRun
from control.simulator.workflows.workflow_dispatch import KnowsCallsAlone

TARGET_ONGOING = 2.0
UPSCALE_DELAY_S, DOWNSCALE_DELAY_S = 30.0, 600.0
"""Ray Serve's documented defaults: ongoing requests of a replica, and how long more, or fewer, must be there."""


class Replicas:
    """Services on places, which stay there."""

    def __init__(self) -> None:
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        """Service → places that have it."""

    def add(self, cluster: PlaceCluster, service: str, place: int) -> None:
        self.places[service].append(place)
        cluster.want(place, service, pinned=True)

    def add_anywhere(self, cluster: PlaceCluster, service: str) -> bool:
        """Add a replica where most memory is free; False: it fits nowhere."""
        others = [at for at in range(len(cluster.places)) if at not in self.places[service]]
        best = max(others, key=lambda at: cluster.places[at].free_gib, default=None)
        if best is None or cluster.places[best].free_gib < cluster.services[service].memory_gib:
            return False
        self.add(cluster, service, best)
        return True

    def remove_one(self, cluster: PlaceCluster, service: str) -> None:
        """Remove the last replica that has no call."""
        for place in reversed(self.places[service]):
            if not cluster.places[place].ongoing()[service]:
                self._remove(cluster, service, place)
                return

    def drop_a_further_one(self, cluster: PlaceCluster) -> bool:
        """Remove a replica of the service that has most, where most memory is free; False: each has one."""
        service = max(self.places, key=lambda name: (len(self.places[name]), name), default="")
        if len(self.places[service]) < 2:
            return False
        self._remove(cluster, service, max(self.places[service], key=lambda at: cluster.places[at].free_gib))
        return True

    def _remove(self, cluster: PlaceCluster, service: str, place: int) -> None:
        self.places[service].remove(place)
        cluster.places[place].unpin(service)


class RayServeLike(KnowsCallsAlone):
    """The shorter queue of two random replicas, whose number follows the calls that are not done. Devices are shared by
    fractions: several services are on one, and take turns."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311
        self._replicas = Replicas()
        self._since_s: dict[tuple[str, bool], float] = {}
        """Service, and whether more replicas are wanted → since when."""

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:  # noqa: ARG002
        """Choose for each call by itself."""
        for call in calls:
            homes = self._replicas.places[call.service.name]
            two = self._chance.sample(homes, min(2, len(homes)))
            ahead = Counter(each.place for each in calls if each.service is call.service)  # those are in no queue yet
            call.place = min(two, key=lambda at: cluster.places[at].ongoing()[call.service.name] + ahead[at])

    def tick(self, cluster: PlaceCluster) -> None:
        """Start replicas where calls have been many for a while, and stop some where they have been few for long."""
        self._start(cluster)
        ongoing: Counter[str] = sum((place.ongoing() for place in cluster.places), Counter())
        for service in cluster.services:
            wanted = max(1, math.ceil(ongoing[service] / TARGET_ONGOING))
            replicas = len(self._replicas.places[service])
            self._scale(cluster, service, wanted, replicas)

    def _start(self, cluster: PlaceCluster) -> None:
        """One replica of each service, as `min_replicas` has it."""
        for service in cluster.services:
            if not self._replicas.places[service] and not self._replicas.add_anywhere(cluster, service):
                raise ValueError(f"no place has room for a replica of {service}: give more places or memory")

    def _scale(self, cluster: PlaceCluster, service: str, wanted: int, replicas: int) -> None:
        for is_more, delay_s in ((True, UPSCALE_DELAY_S), (False, DOWNSCALE_DELAY_S)):
            if wanted == replicas or (wanted > replicas) is not is_more:
                self._since_s.pop((service, is_more), None)
            elif cluster.now_s - self._since_s.setdefault((service, is_more), cluster.now_s) >= delay_s:
                for _ in range(abs(wanted - replicas)):
                    if is_more:
                        self._replicas.add_anywhere(cluster, service)
                    else:
                        self._replicas.remove_one(cluster, service)


class TritonLike(KnowsCallsAlone):
    """The shortest queue of the replicas of a placement that is given, and stays."""

    def __init__(self, homes: Sequence[frozenset[str]]) -> None:
        """`homes`: of each place, its services; one that has none is put where most memory is free."""
        self._homes = homes
        self._replicas = Replicas()

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:  # noqa: ARG002
        """Choose for each call by itself."""
        for call in calls:
            homes = self._replicas.places[call.service.name]
            ahead = Counter(each.place for each in calls)
            call.place = min(homes, key=lambda at: cluster.places[at].ongoing().total() + ahead[at])

    def tick(self, cluster: PlaceCluster) -> None:
        """Place all before the first run."""
        if self._replicas.places:
            return
        for place, services in enumerate(self._homes):
            for service in sorted(services):
                self._replicas.add(cluster, service, place)
        for service in cluster.services:
            while not self._replicas.places[service] and not self._replicas.add_anywhere(cluster, service):
                if not self._replicas.drop_a_further_one(cluster):
                    raise ValueError(f"no place has room for {service} beside one replica of each that is placed")
