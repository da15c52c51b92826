"""What the answer of a request costs, by who takes its first leg (`policies.slack`).

A mean request costs what the capacity costs that it takes of each leg: the rent of a second over the requests that are
certified for a second. Of the first leg the time of the prompt is known for each request; the rest grows with its
answer. An instance of a route of one leg makes that itself; of longer routes it is made by those of the later legs, of
which the plan's flows choose, so that it costs there what they cost together. What the hand-off takes of both is in
the prompt's time and in their capacity. Of a request that is expected to have so many tokens that is the share which
these are of a mean answer's.

Where a model has no routes of both kinds nothing is counted: the answer is made by the same instances, whoever takes
the prompt, or nobody knows how long a mean one is.
"""

from collections.abc import Iterable

import numpy as np

from policies.routing_table import RoutedInstance, RoutedModel, RoutedRoute
from policies.slack import seconds
from templates_lib.values.work import Unit


def answer_usd(model: RoutedModel) -> dict[tuple[str, str], float]:
    """Return US dollars for each token of an answer, by member that takes the first leg and id of its route; those that
    are not there cost nothing more."""
    mean = {leg.unit: leg.units_per_request for route in model.routes for leg in route.legs}
    firsts = [(route, tuple(_able(model, route.legs[0].work_class))) for route in model.routes]
    whole = any(members for route, members in firsts if len(route.legs) == 1)
    split = any(members for route, members in firsts if route.legs[-1].unit is Unit.OUTPUT_TOKEN)
    if not (whole and split and Unit.PROMPT_TOKEN in mean):
        return {}
    prompt, answer = mean[Unit.PROMPT_TOKEN], mean[Unit.OUTPUT_TOKEN]
    found = {}
    for route, members in firsts:
        later_usd = _later_usd(model, route)
        for member in members:
            own_s = route.legs[0].units_per_request / member.units_per_s[route.legs[0].work_class]
            prompt_s = 0.0 if member.times is None else seconds(np.array(member.times.busy_s), prompt)
            own_usd = member.usd_per_hour / 3600 * max(own_s - prompt_s, 0.0)
            found[member.id, route.id] = (own_usd + later_usd) / answer
    return found


def _able(model: RoutedModel, work_class: str) -> Iterable[RoutedInstance]:
    return (member for member in model.members if work_class in member.units_per_s)


def _later_usd(model: RoutedModel, route: RoutedRoute) -> float:
    """Cost of the legs of a mean request behind the first, each at all who serve it together."""
    usd = 0.0
    for leg in route.legs[1:]:
        able = tuple(_able(model, leg.work_class))
        units_per_s = sum(member.units_per_s[leg.work_class] for member in able)
        if units_per_s > 0:
            usd += leg.units_per_request * sum(member.usd_per_hour for member in able) / 3600 / units_per_s
    return usd
