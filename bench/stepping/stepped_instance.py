"""One instance: a production scheduler, and clocks in place of stages."""

from dataclasses import dataclass

from agents.messages.to_scheduler import OtherLeg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import Sampled
from agents.scheduler.gateway_message import GatewayMessage
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import Dispatch, GroupStep, ReleaseKv, ReserveKv
from bench.stepping.clocks import Clocks
from bench.stepping.streams import Piece, Prompts
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.serving.settings import ServingSettings
from policies.room import Room

GATEWAY = "gateway"
TOKEN = 0
"""What every model says here."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an instance wants done now."""

    steps: list[tuple[int, int, float]]
    """As (group, step, when it is through)."""
    sent: list[Dispatch]
    begun: dict[int, float]
    """When requests that begin here do."""
    pieces: list[Piece]
    """Of KV caches that are being sent, and that waited for one of these steps."""


class SteppedInstance:
    def __init__(self, number: int, life: InstanceLife, settings: ServingSettings) -> None:
        self.number = number
        self.life = life
        self.core = SchedulerCore(_layout(life), settings.max_waiting, streams_kv=settings.streams_kv)
        self.clocks = Clocks(life.station, sends=life.leg == "prefill")
        self.room = Room()
        """As gateways know it: they hear at once."""
        self.room.tell(self.core.status.room)
        self.is_alive = True
        self.is_due = False
        """It is to order what there is to do."""
        self._flights: dict[int, GroupStep] = {}
        self._sampled: set[int] = set()
        """Runs that decode."""
        self.prompts = Prompts()

    def leg(self, hand_off: str) -> OtherLeg:
        """As the instance that does the other leg knows it."""
        return OtherLeg(self.life.id, "tcp://nowhere:1", self.life.id, hand_off)

    def order(self, now_s: float) -> "Wanted":
        wanted = Wanted([], [], {}, [])
        for each in self.core.next_orders():
            if isinstance(each, ReserveKv):
                self._sampled.add(each.run)
            elif isinstance(each, Dispatch):
                wanted.sent.append(each)
            elif isinstance(each, ReleaseKv):
                self.prompts.forget(each.run)
            else:
                self._flights[each.number] = each
                end_s, spans = self.clocks.launch([(e, e.run in self._sampled) for e in each.entries], now_s)
                wanted.steps.append((each.group, each.number, end_s))
                for entry in each.entries:
                    if entry.trace:
                        wanted.begun[int(entry.trace)] = spans[entry.run][0][0]
                    if entry.run not in self._sampled:
                        wanted.pieces.extend(self.prompts.launch(entry, spans[entry.run]))
        return wanted

    def join(self, step: int) -> tuple[GatewayMessage, ...]:
        """The step is through all stages."""
        flight = self._flights.pop(step)
        for entry in flight.entries:
            self.prompts.join(entry.run)
        answers: tuple[GatewayMessage, ...] = ()
        for node in sorted({entry.nodes[-1] for entry in flight.entries}):
            sampling = [e for e in flight.entries if e.nodes[-1] == node and e.sampling is not None]
            answers += self.core.record(step, node, {entry.run: Sampled((TOKEN,)) for entry in sampling})
            self._sampled |= {entry.run for entry in sampling}
        return answers


def _layout(life: InstanceLife) -> PipelineLayout:
    stages = tuple(
        tuple(
            NodeLimits(f"{s}.{n}", node.weight, node.batch_cap, node.chunk_tokens, node.kv_blocks, node.step.parts)
            for n, node in enumerate(stage.nodes)
        )
        for s, stage in enumerate(life.station.stages)
    )
    return PipelineLayout(life.app, stages, life.station.block_tokens, life.station.max_context_tokens, TOKEN + 1)
