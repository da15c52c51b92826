"""A model with its promise and its traffic: what templates are built for."""

from dataclasses import dataclass, field, replace

from templates_lib.load.arrivals import Arrivals
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.slo import Slo
from templates_lib.values.speculation import Speculation
from templates_lib.values.work import DEFAULT_TYPE, Edge, Leg, Phase, Route, Unit, WorkClass

UNIT_OF_PHASE = {Phase.PREFILL: Unit.PROMPT_TOKEN, Phase.DECODE: Unit.OUTPUT_TOKEN, Phase.AGGREGATED: Unit.INVOCATION}


@dataclass(frozen=True, slots=True, eq=False)
class HeldModel:
    """A model as an engine has it after loading."""

    engine: str
    model: ModelSpec


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """One served model. `name` is unique in a fleet (one model may be served twice under different objectives).

    Each of its templates is of one engine. `engine`, which has the model as `model`, is preferred to `others`."""

    name: str
    model: ModelSpec
    slo: Slo
    shape: WorkloadShape
    disaggregated: bool = True
    """Offer templates of one phase each."""
    aggregated: bool = False
    """Offer templates that do both. With both true, each is a route and the plan chooses."""
    engine: str = "vllm-stage"
    dispatch: str = "lockstep-v1"
    arrivals: Arrivals = field(default_factory=Arrivals)
    """How requests come: plans that promise a percentile are simulated with it."""
    others: tuple[HeldModel, ...] = ()
    """More engines that its templates may be of. Their KV caches are like those of `model`, so that instances of unlike
    engines hand them over."""
    only_where_started: bool = False
    """Templates of each engine are planned only in clouds whose nodes start it; false: in all, of an engine that was
    named and that none of them starts, to look at."""
    prefix_cache: bool = True
    """Its instances keep KV blocks for prompts that begin alike. No plan counts on what they find."""
    speculation: Speculation | None = None
    """How its instances draft answers; None: not at all. No plan counts on what is right."""

    def by_engine(self) -> tuple["ServedModel", ...]:
        """Return the same for each of its engines alone, the preferred one first."""
        alone = replace(self, others=())
        return (alone, *(replace(alone, engine=each.engine, model=each.model) for each in self.others))

    def under(self, engine: str) -> "ServedModel | None":
        """Return the same for this engine alone; None: it is served by others."""
        return next((each for each in self.by_engine() if each.engine == engine), None)

    @property
    def phases(self) -> tuple[Phase, ...]:
        split = (Phase.PREFILL, Phase.DECODE) if self.disaggregated else ()
        return (*split, Phase.AGGREGATED) if self.aggregated else split

    def is_component(self, name: str) -> bool:
        """Tell whether executors that run this component run the model: those that nobody has named have its id."""
        return name in (self.name, self.model.id)

    def class_id(self, phase: Phase) -> str:
        return f"{self.name}/{phase.value}"

    def slo_ms(self, phase: Phase) -> float:
        """Budget of all stages together: a pass over the prompt for the first phase, one step for the others."""
        if phase is not Phase.PREFILL:
            return self.slo.tpot_ms
        return self.slo.first_token_ms(self.shape.prompt_percentile(self.slo.percentile))

    def work_classes(self) -> tuple[WorkClass, ...]:
        return tuple(
            WorkClass(self.class_id(p), self.name, p.value, UNIT_OF_PHASE[p], self.shape.id, self.slo_ms(p))
            for p in self.phases
        )

    def routes(self) -> tuple[Route, ...]:
        """Return the routes: prompt → KV cache → answer, or one aggregated invocation."""
        routes: list[Route] = []
        prompt, output = self.shape.mean_prompt_tokens, self.shape.mean_output_tokens
        if self.disaggregated:
            kv_bytes = self.model.kv_bytes_per_token_per_layer * sum(
                float((self.shape.prompt_tokens if w == 0 else self.shape.prompt_tokens.clip(max=w)).mean())
                for w in self.model.windows
            )
            split = (Leg(self.class_id(Phase.PREFILL), prompt), Leg(self.class_id(Phase.DECODE), output))
            routes.append(Route(f"{self.name}/disaggregated", self.name, DEFAULT_TYPE, split, (Edge(0, 1, kv_bytes),)))
        if self.aggregated:
            both = (Leg(self.class_id(Phase.AGGREGATED), 1.0),)
            routes.append(Route(f"{self.name}/aggregated", self.name, DEFAULT_TYPE, both))
        return tuple(routes)
