"""What a change to a resource will be: Terraform's proposal, and what the resource says of computed attributes."""

from dataclasses import dataclass
from typing import Any

from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource
from medley_terraform.unknown import UNKNOWN
from medley_terraform.values import plain, raw_of, same


@dataclass(frozen=True, slots=True)
class Planned:
    raw: dict[str, Any]
    replaced_for: tuple[str, ...] = ()
    """Attributes whose change makes a new one."""


def planned(
    resource: Resource, prior: dict[str, Any] | None, proposed: dict[str, Any], config: dict[str, Any], report: Report
) -> Planned:
    """All raw, as Terraform sends them. Raises Failure."""
    schema = resource.schema
    new = dict(proposed)
    for attribute in schema.attributes:
        if attribute.default is not None and config.get(attribute.name) is None:
            new[attribute.name] = raw_of(attribute.type, attribute.default)
        elif attribute.computed and prior is None:
            new[attribute.name] = UNKNOWN
    before, after = (None if prior is None else plain(schema.shape, prior)), plain(schema.shape, new)
    settable = [each for each in schema.attributes if not each.computed]
    if before is not None and prior is not None:
        changed = frozenset(e.name for e in settable if not same(e.type, before[e.name], after[e.name]))
        if not changed:
            return Planned(prior)
        replaced = tuple(each.name for each in settable if each.replaces and each.name in changed)
        if replaced:
            return Planned(new, replaced)
    else:
        changed = frozenset(each.name for each in settable)
    for name, value in resource.plan(Change(before, after, changed), report).items():
        kind = schema.shape.named(name).type
        new[name] = raw_of(kind, value, None if prior is None else prior[name])
    return Planned(new)


def settled(resource: Resource, raw: dict[str, Any], computed: dict[str, Any]) -> dict[str, Any]:
    """The state after apply: what was planned, with what was found out."""
    new = dict(raw)
    for attribute in resource.schema.attributes:
        if attribute.name in computed:
            new[attribute.name] = raw_of(attribute.type, computed[attribute.name], raw[attribute.name])
        elif attribute.computed and new[attribute.name] == UNKNOWN:
            new[attribute.name] = None
    return new
