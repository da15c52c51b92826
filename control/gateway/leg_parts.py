"""The task of the member that serves a leg of a route, as the wire says it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.messages.to_scheduler import Generate, Leg, OtherLeg
from control.gateway.call import Call
from control.gateway.instance_link import InstanceLink
from policies.routing_table import RoutedInstance, RoutedRoute
from templates_lib.values.work import Unit

End = tuple[int, int]
"""Another leg, and the edge to it: indices of the route."""


@dataclass(frozen=True, slots=True)
class LegPart:
    work_class: str
    leg: Leg
    peer: End | None
    """Prefill's decode, and the other way round: they hand the KV cache over, and both send tokens."""
    receives_from: tuple[End, ...]
    sends_to: tuple[End, ...]

    @property
    def makes_tokens(self) -> bool:
        """Whether tokens of the answer are chosen here."""
        return self.leg is Leg.PREFILL or not self.sends_to

    def task(
        self,
        call: Call,
        attempt: int,
        links: Sequence[InstanceLink],
        hand_offs: Sequence[str],
        deadline_s: float,
        later_s: float,
    ) -> Generate:
        """Make the message that gives it to the member. `links`: of each leg. `hand_offs`: of each edge. `later_s`: as
        of `Generate`."""

        def peers(*ends: End) -> tuple[OtherLeg, ...]:
            found = (links[leg].other_leg(hand_offs[edge]) for leg, edge in ends)
            return tuple(other for other in found if other is not None)

        asked = call.asked
        return Generate(
            attempt=attempt,
            request=asked.request,
            model=asked.model if asked.task is None else asked.task.app.served.name,
            prompt=asked.prompt,
            generated=tuple(call.generated),
            max_tokens=asked.max_tokens,
            stop_ids=asked.stop_ids,
            sampling=asked.sampling,
            deadline_s=deadline_s,
            leg=self.leg,
            peer=next(iter(peers(self.peer)), None) if self.peer else None,
            trace=asked.trace,
            work_class=self.work_class,
            receives_from=peers(*self.receives_from),
            sends_to=peers(*self.sends_to),
            cache_salt=asked.cache_salt,
            given=call.given,
            pooling=asked.pooling,
            later_s=later_s,
        )


def writing_part(route: RoutedRoute, leg: int) -> LegPart:
    """The task of the decoder of an app: what it needs of other legs comes as rows, by reference."""
    return LegPart(route.legs[leg].work_class, Leg.WHOLE, None, (), ())


def prompt_alone(
    members: Sequence[RoutedInstance], parts: Sequence[LegPart]
) -> tuple[Sequence[RoutedInstance], Sequence[LegPart]]:
    """Return the member of a route that computes the prompt, and its part where it does nothing else, for nobody else:
    of a request that wants the prompt's state."""
    first = next(n for n, part in enumerate(parts) if part.makes_tokens)
    return members[first : first + 1], (LegPart(parts[first].work_class, Leg.WHOLE, None, (), ()),)


def leg_parts(route: RoutedRoute) -> tuple[LegPart, ...]:
    """One for each leg. If prompt tokens lead to output tokens that answer the client, they are prefill and decode."""
    units, last = [leg.unit for leg in route.legs], len(route.legs) - 1
    into = [(edge.source, n) for n, edge in enumerate(route.edges) if edge.target == last]
    text = (Unit.PROMPT_TOKEN, Unit.OUTPUT_TOKEN)
    prefill = next(((leg, edge) for leg, edge in into if (units[leg], units[last]) == text), None)
    roles: dict[int, tuple[Leg, End | None]] = {}
    if prefill is not None:
        roles = {prefill[0]: (Leg.PREFILL, (last, prefill[1])), last: (Leg.DECODE, prefill)}
    others = [(n, edge) for n, edge in enumerate(route.edges) if prefill is None or n != prefill[1]]
    return tuple(
        LegPart(
            leg.work_class,
            *roles.get(place, (Leg.WHOLE, None)),
            tuple((edge.source, n) for n, edge in others if edge.target == place),
            tuple((edge.target, n) for n, edge in others if edge.source == place),
        )
        for place, leg in enumerate(route.legs)
    )
