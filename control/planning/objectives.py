"""Objectives of a fleet's models, as they might be instead. Pure."""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from control.planning.recipe import PipelineRecipe, Recipe, SourceRecipe, UnitRecipe
from templates_lib.apps.app import LONG, serving_id
from templates_lib.apps.served_model import ServedModel
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.slo import Slo

EASIER = 1.25
"""Factor of a latency objective that is one step easier."""
FACTORS = (0.5, 0.65, 0.8, 1.25, 1.6, 2.0)
"""Of the objective in force: where a curve is looked at unless somebody says where."""
PERCENTILES = (99.9, 99.5, 99.0, 95.0, 90.0, 80.0, 50.0)
"""The same for percentiles; one step easier is the next one."""
LEAST_PERCENTILE, MOST_PERCENTILE = PERCENTILES[-1], PERCENTILES[0]
MOST_MS = 1e7
MOST_POINTS = 20
"""Values of one objective that a curve is asked for at most."""


class Axis(StrEnum):
    """What of an objective changes."""

    TTFT = "ttft"
    TPOT = "tpot"
    PERCENTILE = "percentile"

    @property
    def unit(self) -> str:
        return "%" if self is Axis.PERCENTILE else "ms"

    @property
    def label(self) -> str:
        return self.value if self is Axis.PERCENTILE else self.value.upper()

    def of(self, slo: Slo) -> float:
        """Milliseconds, or percent."""
        return {Axis.TTFT: slo.ttft_ms, Axis.TPOT: slo.tpot_ms, Axis.PERCENTILE: slo.percentile}[self]

    def changed(self, slo: Slo, value: float) -> Slo:
        match self:
            case Axis.TTFT:
                return replace(slo, ttft_ms=value)
            case Axis.TPOT:
                return replace(slo, tpot_ms=value)
            case Axis.PERCENTILE:
                return replace(slo, percentile=value)

    def easier(self, value: float) -> float | None:
        """One step easier; None: there is none."""
        if self is Axis.PERCENTILE:
            return next((each for each in PERCENTILES if each < value), None)
        return three_digits(EASIER * value)

    def around(self, value: float) -> tuple[float, ...]:
        """Values to look at beside `value`."""
        if self is Axis.PERCENTILE:
            return tuple(each for each in PERCENTILES if each != value)
        return tuple(three_digits(factor * value) for factor in FACTORS)

    def ease(self, value: float) -> float:
        """Greater is easier to keep."""
        return -value if self is Axis.PERCENTILE else value

    def checked(self, values: Iterable[float]) -> tuple[float, ...]:
        """Each value once. Raises ValueError for one that is no such objective, and for too many."""
        found = tuple(dict.fromkeys(values))
        least, most = (LEAST_PERCENTILE, MOST_PERCENTILE) if self is Axis.PERCENTILE else (0.0, MOST_MS)
        for value in found:
            if not (math.isfinite(value) and value > 0 and least <= value <= most):
                span = (
                    f"from {least:g} to {most:g} %" if self is Axis.PERCENTILE else f"more than 0, at most {most:g} ms"
                )
                raise ValueError(f"{self.label}: {value:g} is no objective: give {span}")
        if len(found) > MOST_POINTS:
            raise ValueError(f"{len(found)} values of {self.label} are asked for: {MOST_POINTS} are the most")
        return found

    def text(self, value: float) -> str:
        """With its unit, for people: `900 ms`, `1.6 s`, `99 %`."""
        if self is Axis.PERCENTILE:
            return f"{value:g} %"
        return f"{value / 1000:.4g} s" if value >= 1000 else f"{value:.4g} ms"


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of one app; of all its request types together."""

    model: str
    """The fleet's name of the app."""
    axis: Axis

    @property
    def text(self) -> str:
        return f"{self.model}: {self.axis.label}"

    def change(self, before: float, after: float) -> str:
        """`qwen3-32b: TTFT 1.6 s -> 2 s`."""
        return f"{self.text} {self.axis.text(before)} -> {self.axis.text(after)}"


def models_of(recipe: Recipe) -> dict[str, tuple[ServedModel, ...]]:
    """App → what serves its request types, of the apps whose templates are made for their objectives."""
    served = {
        each.name: each for source in recipe.sources if isinstance(source, PipelineRecipe) for each in source.served
    }
    found: dict[str, tuple[ServedModel, ...]] = {}
    longer = {serving_id(name, LONG) for name, each in served.items() if each.slo.max_prompt_tokens}
    for name, each in served.items():
        if name not in longer:
            long = served.get(serving_id(name, LONG)) if each.slo.max_prompt_tokens else None
            found[name] = (each,) if long is None else (each, long)
    return found


def parts_of(recipe: Recipe, model: str) -> tuple[ServedModel, ...]:
    """What serves the request types of an app. Raises ValueError, with the nearest name, for one that is not served."""
    models = models_of(recipe)
    if model not in models:
        raise ValueError(f"no model of this fleet is called {model!r}; {nearest_name(model, models)}")
    return models[model]


def now_of(recipe: Recipe, objective: Objective) -> float:
    """The value in force. Raises as `parts_of`."""
    return objective.axis.of(parts_of(recipe, objective.model)[0].slo)


def under(recipe: Recipe, values: Mapping[Objective, float]) -> tuple[Recipe, PipelineRecipe]:
    """The recipe under other objectives, and the part of it whose templates are others then. Raises as `now_of`."""
    slos: dict[str, Slo] = {}
    for objective, value in values.items():
        now_of(recipe, objective)
        for served in models_of(recipe)[objective.model]:
            slos[served.name] = objective.axis.changed(slos.get(served.name, served.slo), value)
    return _with_slos(recipe, slos)


def unpromised(recipe: Recipe, models: Iterable[str]) -> tuple[Recipe, PipelineRecipe]:
    """The same with `keep: throughput` for these apps: their objectives are of requests that do not wait."""
    apps = models_of(recipe)
    slos = {served.name: replace(served.slo, queueing=False) for model in models for served in apps[model]}
    return _with_slos(recipe, slos)


def _with_slos(recipe: Recipe, slos: Mapping[str, Slo]) -> tuple[Recipe, PipelineRecipe]:
    def changed(source: SourceRecipe) -> SourceRecipe:
        if not isinstance(source, PipelineRecipe | UnitRecipe):
            return source
        return replace(source, served=tuple(replace(s, slo=slos.get(s.name, s.slo)) for s in source.served))

    other = Recipe(tuple(changed(each) for each in recipe.sources))
    return other, own_of(other, slos)


def own_of(recipe: Recipe, names: Container[str]) -> PipelineRecipe:
    """The part of the recipe that makes the templates of what serves under these names."""
    (whole,) = (each for each in recipe.sources if isinstance(each, PipelineRecipe))
    unpruned = tuple(name for name in whole.unpruned if name in names)
    return replace(whole, served=tuple(s for s in whole.served if s.name in names), unpruned=unpruned)


def three_digits(value: float) -> float:
    return float(f"{value:.3g}")
