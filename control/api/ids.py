"""Ids in the path of a request: whole, or their beginning as commands print it."""

from typing import Annotated

from fastapi import Depends, Path

from control.api.guarded_route import ServicesOf
from control.db.short_ids import whole_id

_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
_PREFIX = "Its id, or the beginning of it, as long as no other begins so."


def _plan(plan: Annotated[str, Path(pattern=_PATTERN, description=_PREFIX)], services: ServicesOf) -> str:
    return whole_id(services.database, "plan", plan)


def _instance(instance: Annotated[str, Path(pattern=_PATTERN, description=_PREFIX)], services: ServicesOf) -> str:
    return whole_id(services.database, "instance", instance)


def _template(
    template: Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$", description=_PREFIX)], services: ServicesOf
) -> str:
    return whole_id(services.database, "template", template)


PlanId = Annotated[str, Depends(_plan)]
InstanceId = Annotated[str, Depends(_instance)]
TemplateId = Annotated[str, Depends(_template)]
