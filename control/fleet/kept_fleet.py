"""One fleet as its keeper remembers it: what its instances are, and how they have failed."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from agents.messages.to_hub import OUT_OF_MEMORY
from control.back_off import BackOff
from control.diff.running import Running
from control.diff.target import Column, Target
from control.executor.allowance import SpendingCheck
from control.fleet.order import FleetOrder, column
from control.fleet.running import running_instance
from control.hub.deployed import Deployed
from control.hub.gang import Gang, gang_of
from control.lifecycle.held_node import HeldNode
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from templates_lib.units.unit_template import class_of
from templates_lib.values.instance import Instance
from templates_lib.values.template import ServingTemplate

_LEAST_KV_SHARE = 1 / 8


def _rates(wanted: Target, gang: Gang) -> dict[str, float]:
    """Requests per second that are planned of each executor, which serves a model as a whole."""
    return {each.id: wanted.units_per_s.get(class_of(each.component), 0.0) for each in gang.executors}


class KeptFleet:
    """Times are monotonic seconds of the caller's."""

    def __init__(
        self, order: FleetOrder, allowance: SpendingCheck, gang: Callable[[ServingTemplate], Gang] = gang_of
    ) -> None:
        """`gang`: what nodes run of a template."""
        self.order, self.allowance = order, allowance
        self._gang_of = gang
        self._templates: dict[str, ServingTemplate] = {}
        self._gangs: dict[str, Gang] = {}
        self._kv_share: dict[Column, float] = {}
        self._back_off = BackOff()

    def knows(self, instance: str) -> bool:
        return instance in self._templates

    def learn(self, instance: Instance, template: ServingTemplate) -> None:
        """Keep what an instance runs. Raises UnplaceableError."""
        gang = self._gang_of(template).with_kv_share(self._kv_share.get(column(instance), 1.0))
        self._templates[instance.id], self._gangs[instance.id] = template, gang

    def forget(self, instance: str) -> None:
        self._templates.pop(instance, None)
        self._gangs.pop(instance, None)

    def gang(self, instance: str) -> Gang:
        return self._gangs[instance]

    def deployed(self, instance: Instance, held: Mapping[int, HeldNode]) -> Deployed:
        gang, wanted, files = self._gangs[instance.id], self.order.of(instance), self.order.files
        models = {each.id: wanted.model if wanted and gang.is_of_one else each.component for each in gang.executors}
        return Deployed(
            instance.id,
            InstanceState(instance.state),
            gang,
            {} if wanted is None else {name: files[model] for name, model in models.items() if model in files},
            tuple(held[p].name if p in held else None for p in range(len(gang.configs))),
            tuple(self.order.memory_mib.get(config, 0) for config in gang.configs),
            {} if wanted is None or not gang.pool_bytes else _rates(wanted, gang),
        )

    def running(self, instance: Instance, held: Mapping[int, HeldNode]) -> Running:
        return running_instance(instance, self._templates[instance.id], self.order.of(instance), held)

    def note(self, instance: Instance, step: PastTransition, now_s: float) -> None:
        """Take note of a step of one of its instances."""
        at = column(instance)
        if step.to_state is InstanceState.READY:
            self._back_off.worked(at)
        elif step.to_state is InstanceState.FAILED:
            self._back_off.failed(at, now_s)
            if step.from_state is InstanceState.LOADING and OUT_OF_MEMORY in step.reason:
                self._kv_share[at] = max(_LEAST_KV_SHARE, self._kv_share.get(at, 1.0) / 2)

    def not_before(self, columns: Iterable[Column], now: datetime, now_s: float) -> dict[Column, datetime]:
        """Return when columns may be launched that may not be launched yet."""
        waits = {at: self._back_off.wait_s(at, now_s) for at in columns}
        return {at: now + timedelta(seconds=wait_s) for at, wait_s in waits.items() if wait_s > 0}
