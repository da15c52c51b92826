"""Which instances are to be launched, so that as many run as a plan wants."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from control.fleet.wanted import Wanted
from control.lifecycle.names import instance_id
from control.lifecycle.state import InstanceState
from templates_lib.instance import LEAVING, Instance


@dataclass(frozen=True, slots=True)
class Launch:
    id: str
    wanted: Wanted


def launches(wanted: Iterable[Wanted], instances: Iterable[Instance], used: Collection[str]) -> list[Launch]:
    """`instances`: all that are on record and not terminated. `used`: ids of earlier launches, living or not; a failed
    instance is replaced by another one, under another id."""
    living = Counter((i.template_id, i.zone, i.market) for i in instances if i.state not in LEAVING)
    taken = {*used, *(i.id for i in instances)}
    found: list[Launch] = []
    for each in wanted:
        missing, copy = each.count - living[each.column], 0
        while missing > 0:
            name = instance_id(each.plan_id, each.template.id, each.zone, each.market, copy)
            if name not in taken:
                found.append(Launch(name, each))
                missing -= 1
            copy += 1
    return found


def surplus(wanted: Iterable[Wanted], instances: Iterable[Instance]) -> list[Instance]:
    """Instances that no plan wants (any more). Of equal ones those that serve stay, the oldest before the others."""
    room = Counter({each.column: each.count for each in wanted})
    found: list[Instance] = []
    for instance in sorted(instances, key=lambda i: (i.state != InstanceState.READY, i.state_since, i.id)):
        column = (instance.template_id, instance.zone, instance.market)
        if instance.state in LEAVING:
            continue
        if room[column] > 0:
            room[column] -= 1
        else:
            found.append(instance)
    return found
