"""Stages that compute nothing, and check every order: the scheduler's counterpart in tests."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.messages.to_gateway import Failed, Finished, TokenRun, Tokens
from agents.messages.to_scheduler import Generate, LogitRules, Sampling
from agents.scheduler.block_book import BlockName
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import Pooled, Sampled
from agents.scheduler.gateway_message import GatewayMessage
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import Dispatch, DropBlocks, GroupStep, Order, ReleaseKv, ReserveKv, StepEntry, TakeRows
from templates_lib.values.placement import FULLEST

GREEDY = Sampling(0.0, 1.0, 0, 0)
COUNTED = (
    GREEDY,
    *(Sampling(0.0, 1.0, 0, 0, None, rules) for rules in (LogitRules(0.5), LogitRules(repetition_penalty=2))),
)
"""Nothing is counted; tokens of the output are; those of the prompt too."""
BLOCK_TOKENS = 4


def layout(*stages: tuple[float, ...], cap: int = 8, chunk: int = 8, blocks: int = 64, context: int = 200):
    """Weights of the nodes of each stage."""
    nodes = tuple(
        tuple(NodeLimits(f"{s}.{n}", weight, cap, chunk, blocks) for n, weight in enumerate(weights))
        for s, weights in enumerate(stages)
    )
    return PipelineLayout("m", nodes, BLOCK_TOKENS, context, 1000)


def asked(attempt: int, prompt: tuple[int, ...] = (5, 6, 7), max_tokens: int = 8, **options: object) -> Generate:
    sampling = COUNTED[attempt % len(COUNTED)]
    values = {"generated": (), "stop_ids": (), "sampling": sampling, "deadline_s": 10.0, **options}
    return Generate(attempt, f"r{attempt}", values.pop("model", "m"), prompt, max_tokens=max_tokens, **values)


def next_token(text: tuple[int, ...]) -> int:
    """A function of all tokens before, as a model's choice is."""
    return (sum(text) * 31 + len(text) * 7) % 97


Choose = Callable[[tuple[int, ...]], int]


def continuation(
    prompt: tuple[int, ...], count: int, stop_ids: tuple[int, ...] = (), choose: Choose = next_token
) -> list[int]:
    text = list(prompt)
    for _ in range(count):
        token = choose(tuple(text))
        if token in stop_ids:
            break
        text.append(token)
    return text[len(prompt) :]


@dataclass
class FakeStages:
    """Caches what it is told, refuses what a real engine would, and answers steps when the test says so."""

    core: SchedulerCore
    layout: PipelineLayout
    choose: Choose = next_token
    cached: dict[int, list[int]] = field(default_factory=dict)
    wrong: dict[int, int] = field(default_factory=dict)
    """Of a run, how many of those were drafted by its last step and are wrong."""
    reach: dict[int, int] = field(default_factory=dict)
    """The most tokens of a run that were ever cached: it keeps their blocks."""
    places: dict[int, tuple[int, ...]] = field(default_factory=dict)
    group_of: dict[int, int] = field(default_factory=dict)
    flights: dict[int, tuple[GroupStep, dict[int, Sampled | Pooled]]] = field(default_factory=dict)
    ruled: dict[int, tuple[LogitRules, list[int]]] = field(default_factory=dict)
    """Rules of a run, and the tokens that they count, as the stage that samples knows them."""
    tokens: dict[int, list[int]] = field(default_factory=dict)
    ended: dict[int, list[Finished | Failed]] = field(default_factory=dict)
    coming: dict[int, int] = field(default_factory=dict)
    """Reserved runs whose KV cache has not come, and how many tokens of it."""
    dispatches: list[Dispatch] = field(default_factory=list)
    shares: dict[tuple[int, int, int], tuple[BlockName, ...]] = field(default_factory=dict)
    """Of a run, at the node of a stage: blocks of others that it began with."""
    kept: dict[tuple[int, int], dict[BlockName, list[int]]] = field(default_factory=dict)
    """Blocks of runs that are over, by stage and node: the tokens in them."""
    taking: dict[int, TakeRows] = field(default_factory=dict)
    """Runs whose rows of other components have not come."""
    taken: list[TakeRows] = field(default_factory=list)
    """All that there were."""
    attended_rows: int = 0
    """That every run has in blocks beside those of its tokens."""
    computed: int = 0
    """Tokens of all steps."""
    releases: int = 0
    last_step: int = 0
    on_step: Callable[[GroupStep], None] = lambda _step: None

    def order(self) -> int:
        """Have the core order what it wants; how many orders came."""
        orders = self.core.next_orders()
        for order in orders:
            self._obey(order)
        return len(orders)

    def report(self, step: int) -> None:
        """The last stage's nodes report, in turn."""
        order, samples = self.flights.pop(step)
        for node in sorted({entry.nodes[-1] for entry in order.entries}):
            mine = {e.run: samples[e.run] for e in order.entries if e.nodes[-1] == node and e.run in samples}
            self.hear(self.core.record(step, node, mine))

    def report_one(self, which: int) -> None:
        """Report one of the steps under way, where there is any."""
        if self.flights:
            self.report(sorted(self.flights)[which % len(self.flights)])

    def hear(self, answers: tuple[GatewayMessage, ...]) -> None:
        for answer in answers:
            if isinstance(answer.message, Tokens):
                for run in answer.message.runs:
                    self._hear_run(run)
            else:
                self.ended.setdefault(answer.message.attempt, []).append(answer.message)

    def bring(self, run: int) -> None:
        """Let the rows of a run come."""
        order = self.taking.pop(run)
        for stage in order.taking_stages:
            self.core.rows_here(run, stage, order.nodes[stage])

    def run_dry(self) -> None:
        """Until nothing is under way."""
        while self.order() or self.flights or self.taking:
            for run in list(self.taking):
                self.bring(run)
            self.report(min(self.flights)) if self.flights else None

    def _hear_run(self, run: TokenRun) -> None:
        known = self.tokens.setdefault(run.attempt, [])
        assert run.seq == len(known), "a token was lost or came twice"
        known.extend(run.ids)

    def _obey(self, order: Order) -> None:
        if isinstance(order, ReleaseKv):
            assert self.places.pop(order.run, order.nodes) == order.nodes
            self._keep(order)
            self.cached.pop(order.run, None)
            self.wrong.pop(order.run, None)
            self.reach.pop(order.run, None)
            self.ruled.pop(order.run, None)
            self.coming.pop(order.run, None)
            self.taking.pop(order.run, None)
            self.releases += 1
            return
        if isinstance(order, DropBlocks):
            for name in order.blocks:
                del self.kept[order.stage, order.node][name]
                for (_, stage, node), shared in self.shares.items():
                    assert (stage, node) != (order.stage, order.node) or name not in shared, "a run holds it"
            return
        if isinstance(order, TakeRows):
            assert order.run not in self.cached, "it is told before its first step"
            self.taken.append(order)
            if order.taking_stages:
                self.taking[order.run] = order
            return
        if isinstance(order, Dispatch):
            assert len(self.cached.get(order.run, ())) <= order.tokens
            assert order not in self.dispatches, "nothing is sent twice"
            self.dispatches.append(order)
            return
        if isinstance(order, ReserveKv):
            assert order.run not in self.places
            self.places[order.run] = order.nodes
            self.coming[order.run] = order.tokens
            self._check_blocks()
            return
        self._check_limits(order)
        assert order.number == self.last_step + 1
        assert all(flight.group != order.group for flight, _ in self.flights.values()), "one step a group at once"
        self.last_step = order.number
        samples: dict[int, Sampled | Pooled] = {}
        for entry in order.entries:
            assert self.places.setdefault(entry.run, entry.nodes) == entry.nodes, "nodes are fixed while a run lives"
            assert self.group_of.setdefault(entry.run, order.group) == order.group
            assert entry.run not in self.coming, "its KV cache has not come"
            assert entry.run not in self.taking, "its rows have not come"
            if entry.shared:
                self._share(entry)
            held = self.cached.setdefault(entry.run, [])
            self.computed += len(entry.token_ids)
            del held[len(held) - self.wrong.pop(entry.run, 0) :]
            assert entry.position == len(held), "every position once and in order, but for wrong drafts"
            held.extend(entry.token_ids)
            self.reach[entry.run] = max(self.reach.get(entry.run, 0), len(held))
            if entry.sampling is not None:
                samples[entry.run] = self._sampled(entry, held)
            elif entry.gives_state:
                samples[entry.run] = Pooled(bytes(held))
        self._check_blocks()
        self.flights[order.number] = (order, samples)
        self.on_step(order)

    def _sampled(self, entry: StepEntry, held: list[int]) -> Sampled:
        """Behind the last known token, and behind those of the draft as far as it is right."""
        if entry.ruled is not None:
            assert entry.run not in self.ruled
            self.ruled[entry.run] = entry.ruled.rules, [*entry.ruled.prompt, *entry.ruled.output]
        assert entry.token_ids[entry.known_tokens :] == entry.draft
        text, made = held[: len(held) - len(entry.draft)], list[int]()
        for drafted in (*entry.draft, None):
            made.append(self.choose(tuple(text)))
            self._count(entry, text, made[-1])
            text.append(made[-1])
            if made[-1] != drafted:
                break
        self.wrong[entry.run] = len(entry.draft) - len(made) + 1
        return Sampled(tuple(made))

    def _share(self, entry: StepEntry) -> None:
        """A run begins with blocks that are there, of the same tokens at every stage."""
        assert entry.run not in self.cached
        shared = dict(zip(enumerate(entry.nodes), entry.shared, strict=True))
        (tokens,) = {tuple(self._content(place, names)) for place, names in shared.items()}
        self.cached[entry.run] = list(tokens)
        self.shares.update({(entry.run, *place): names for place, names in shared.items()})

    def _content(self, place: tuple[int, int], names: tuple[BlockName, ...]) -> list[int]:
        text: list[int] = []
        for name in names:
            if name in self.kept.get(place, {}):
                text += self.kept[place][name]
                continue
            stage, node = place
            assert self.places[name.run][stage] == node
            known = len(self.cached[name.run]) - self.wrong.get(name.run, 0)
            block = self.cached[name.run][:known][name.block * BLOCK_TOKENS : (name.block + 1) * BLOCK_TOKENS]
            assert len(block) == BLOCK_TOKENS, "only full blocks are shared"
            text += block
        return text

    def _keep(self, order: ReleaseKv) -> None:
        text = self.cached.get(order.run, [])
        text = text[: len(text) - self.wrong.get(order.run, 0)]
        for place in enumerate(order.nodes):
            self.shares.pop((order.run, *place), None)
            for block in order.kept[place[0]] if order.kept else ():
                tokens = text[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
                assert len(tokens) == BLOCK_TOKENS, "only full blocks are kept"
                self.kept.setdefault(place, {})[BlockName(order.run, block)] = tokens

    def _count(self, entry: StepEntry, held: list[int], chosen: int) -> None:
        """Told once what the rules of a run are and what it has had, a stage knows it from then on."""
        assert entry.sampling is not None
        assert entry.sampling.rules is None
        if entry.run in self.ruled:
            rules, known = self.ruled[entry.run]
            assert known == (held if rules.counts_prompt else held[len(held) - len(known) :])
            known.append(chosen)

    def _check_limits(self, step: GroupStep) -> None:
        requests: Counter[tuple[int, int]] = Counter()
        prompt_tokens: Counter[tuple[int, int]] = Counter()
        for entry in step.entries:
            is_decode = entry.known_tokens == 1 and entry.position > 0
            assert is_decode or not entry.draft
            for place in enumerate(entry.nodes):
                requests[place] += 1 + len(entry.draft)
                prompt_tokens[place] += 0 if is_decode else len(entry.token_ids)
        assert len({entry.run for entry in step.entries}) == len(step.entries) > 0
        for (stage, node), count in requests.items():
            limits = self.layout.stages[stage][node]
            assert count <= limits.batch_cap
            joined = step.group >= self.layout.groups and count > 1
            assert prompt_tokens[stage, node] <= limits.chunk_tokens * (FULLEST if joined else 1)

    def _check_blocks(self) -> None:
        held: Counter[tuple[int, int]] = Counter()
        cached = ((run, max(len(ids), self.reach.get(run, 0))) for run, ids in self.cached.items())
        for run, tokens in [*cached, *self.coming.items()]:
            for place in enumerate(self.places[run]):
                held[place] += self.layout.blocks(tokens) - len(self.shares.get((run, *place), ()))
                held[place] += self.layout.blocks(self.attended_rows)
        held.update({place: len(blocks) for place, blocks in self.kept.items()})
        for (stage, node), blocks in held.items():
            assert blocks <= self.layout.stages[stage][node].kv_blocks
