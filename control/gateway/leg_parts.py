"""What the member that serves a leg of a route has to do, as the wire says it."""

from dataclasses import dataclass

from agents.messages.to_scheduler import Leg
from policies.routing_table import RoutedRoute
from templates_lib.values.work import Unit


@dataclass(frozen=True, slots=True)
class LegEnd:
    """Another leg, and the edge that joins them; both are indices of the route."""

    leg: int
    edge: int


@dataclass(frozen=True, slots=True)
class LegPart:
    work_class: str
    leg: Leg
    peer: LegEnd | None
    """Prefill's decode, and the other way round: they hand the KV cache over, and both send tokens."""
    receives_from: tuple[LegEnd, ...]
    sends_to: tuple[LegEnd, ...]

    @property
    def sends_tokens(self) -> bool:
        return not self.sends_to


def leg_parts(route: RoutedRoute) -> tuple[LegPart, ...]:
    """One for each leg. If prompt tokens lead to output tokens that answer the client, they are prefill and decode."""
    units = [leg.unit for leg in route.legs]
    receives: list[list[LegEnd]] = [[] for _ in units]
    sends: list[list[LegEnd]] = [[] for _ in units]
    roles: dict[int, tuple[Leg, LegEnd]] = {}
    for n, edge in enumerate(route.edges):
        is_text = (units[edge.source], units[edge.target]) == (Unit.PROMPT_TOKEN, Unit.OUTPUT_TOKEN)
        if is_text and edge.target == len(units) - 1 and edge.target not in roles:
            roles[edge.source] = Leg.PREFILL, LegEnd(edge.target, n)
            roles[edge.target] = Leg.DECODE, LegEnd(edge.source, n)
        else:
            sends[edge.source].append(LegEnd(edge.target, n))
            receives[edge.target].append(LegEnd(edge.source, n))
    parts = []
    for n, each in enumerate(route.legs):
        leg, peer = roles.get(n, (Leg.WHOLE, None))
        parts.append(LegPart(each.work_class, leg, peer, tuple(receives[n]), tuple(sends[n])))
    return tuple(parts)
