"""What a fleet plans with and nodes cannot start yet: said in the notes of its plans, and refused where they would
act."""

from collections.abc import Collection, Iterable

from templates_lib.apps.served_model import ServedModel
from templates_lib.models.held_model import refusal_at
from templates_lib.values.engines import ENGINES, engines_at, model_engines


def not_startable(served: Iterable[ServedModel], clouds: Collection[str]) -> tuple[str, ...]:
    """Return a line for each engine that nodes of some of `clouds` do not have, and for each model that the engine of
    such nodes does not run."""
    found: list[str] = []
    lacking: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in served:
        without = tuple(cloud for cloud in sorted(clouds) if each.engine not in engines_at(cloud))
        if each.engine in ENGINES and without:
            lacking.setdefault((each.engine, without), []).append(each.name)
        stored = each.model.stored
        if stored is not None:
            others = sorted({*clouds} - {*without})
            found += filter(None, (refusal_at(cloud, each.engine, each.name, stored) for cloud in others))
    for (engine, without), names in lacking.items():
        others = sorted({name for cloud in without for name in engines_at(cloud)} & set(model_engines()))
        found.append(
            f"nodes of {', '.join(without)} have no engine {engine} yet: {', '.join(names)} can be planned there, and "
            f"not started (they start {', '.join(others)})"
        )
    return tuple(found)


def never_started(served: Iterable[ServedModel], clouds: Collection[str]) -> tuple[str, ...]:
    """Return the same of those models alone that nodes of none of `clouds` start: no plan of them can be acted on."""
    nowhere = [each for each in served if all(not_startable([each], [cloud]) for cloud in clouds)]
    return not_startable(nowhere, clouds)
