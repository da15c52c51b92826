"""What nodes can start, and what a fleet plans with and they cannot yet: said in the notes of its plans, and refused
where they would act."""

from collections.abc import Collection, Iterable

from templates_lib.apps.graph_app import PublishedApp
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.held_model import refusal_at
from templates_lib.values.engines import ENGINES, engines_at, model_engines
from templates_lib.values.offer import Offer

Configs = dict[str, tuple[str, ...]]
"""Engine → configurations of nodes."""


def starts_of(engines: Iterable[str], offers: Iterable[Offer]) -> tuple[Configs, Configs]:
    """Return the configurations that some cloud sells which starts an engine, and those of them that other clouds sell
    too, which do not. A template says which configurations it is of, and not of which cloud: `barred_clouds` does."""
    clouds: dict[str, set[str]] = {}
    for offer in offers:
        clouds.setdefault(offer.node_config, set()).add(offer.cloud)
    some, partly = Configs(), Configs()
    for engine in sorted(engines):
        starts = {config: {engine in engines_at(cloud) for cloud in sold} for config, sold in clouds.items()}
        some[engine] = tuple(sorted(config for config, found in starts.items() if True in found))
        partly[engine] = tuple(sorted(config for config, found in starts.items() if len(found) > 1))
    return some, partly


def barred_clouds(served: Iterable[ServedModel], clouds: Collection[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return model → engine → those of `clouds` whose nodes do not start it, of models that are planned only where they
    are started."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for whole in (each for each in served if each.only_where_started):
        for each in whole.by_engine():
            if barred := tuple(cloud for cloud in sorted(clouds) if not is_started(each, cloud)):
                found.setdefault(whole.name, {})[each.engine] = barred
    return found


def not_startable(served: Iterable[ServedModel], clouds: Collection[str]) -> tuple[str, ...]:
    """Return a line for each engine that nodes of some of `clouds` do not have, and for each model that the engine of
    such nodes does not run, of models that are planned all the same. One that is planned only where it is started has a
    line where there are nodes that start none of its engines."""
    found: list[str] = []
    lacking: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in served:
        if each.only_where_started:
            found += filter(None, (_unused(each, clouds),))
            continue
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


def _unused(served: ServedModel, clouds: Collection[str]) -> str | None:
    engines = served.by_engine()
    idle = [cloud for cloud in sorted(clouds) if not any(is_started(each, cloud) for each in engines)]
    names = " or ".join(each.engine for each in engines)
    return (
        f"nodes of {', '.join(idle)} do not start {names}: {served.name} is planned on none of them" if idle else None
    )


def is_started(served: ServedModel, cloud: str) -> bool:
    """Tell whether nodes of a cloud start the model's preferred engine, and it runs the model there."""
    stored, starts = served.model.stored, served.engine in engines_at(cloud)
    return starts and (stored is None or refusal_at(cloud, served.engine, served.name, stored) is None)


def never_started(served: Iterable[ServedModel], clouds: Collection[str]) -> tuple[str, ...]:
    """Return the same of those models alone that nodes of none of `clouds` start: no plan of them can be acted on."""
    nowhere = [each for each in served if all(not_startable([each], [cloud]) for cloud in clouds)]
    return not_startable(nowhere, clouds)


def apps_not_startable(apps: Iterable[PublishedApp], clouds: Collection[str]) -> tuple[str, ...]:
    """Return a line for the apps whose weights nobody says, and for each engine of apps that nodes of some of `clouds`
    do not have."""
    listed, found = tuple(apps), list[str]()
    if no_weights := [app.name for app in listed if not app.engine]:
        names = ", ".join(no_weights)
        found.append(f"{names} can be planned, and not started: set `weights` of the app, for its engine to compute by")
    for engine in sorted({app.engine for app in listed} - {""}):
        if without := _lacking(engine, clouds):
            names = ", ".join(app.name for app in listed if app.engine == engine)
            nowhere = len(without) == len(clouds)
            so = "can be planned there, and not started" if nowhere else "is planned on none of them"
            found.append(f"nodes of {', '.join(without)} have no engine {engine} yet: {names} {so}")
    return tuple(found)


def barred_apps(apps: Iterable[PublishedApp], clouds: Collection[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The same as `barred_clouds` of apps whose engine some of `clouds` start."""
    without = {app.name: (app.engine, _lacking(app.engine, clouds)) for app in apps if app.engine}
    return {name: {engine: lacking} for name, (engine, lacking) in without.items() if 0 < len(lacking) < len(clouds)}


def _lacking(engine: str, clouds: Collection[str]) -> tuple[str, ...]:
    return tuple(cloud for cloud in sorted(clouds) if engine not in engines_at(cloud))


def apps_never_started(apps: Iterable[PublishedApp], clouds: Collection[str]) -> tuple[str, ...]:
    """Return the same of those apps alone that nodes of none of `clouds` start."""
    return apps_not_startable(
        [app for app in apps if not any(app.engine and app.engine in engines_at(cloud) for cloud in clouds)], clouds
    )
