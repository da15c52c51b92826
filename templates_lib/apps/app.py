"""An app: what clients address as a model, with the types of request that it answers and what serves each."""

from dataclasses import dataclass, replace

from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape, joined_prompts, split_prompts
from templates_lib.values.work import DEFAULT_TYPE

LONG = "long"
"""The type of requests whose prompt is longer than the objective speaks of (`Slo.max_prompt_tokens`)."""


def serving_id(app: str, request_type: str) -> str:
    """Return the name under which plans, routing tables, rows and metrics know one request type of an app: work classes
    and routes begin with it, and demand for it is the default type of an app of this name."""
    return app if request_type == DEFAULT_TYPE else f"{app}-{request_type}"


@dataclass(frozen=True, slots=True)
class TypeShare:
    """A request type of an app, as demand and routes call it."""

    app: str
    request_type: str
    share: float
    """Share of the app's requests, 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestType:
    name: str
    served: ServedModel
    """The app's component with the lengths and the objective of these requests, which have its routes."""
    share: float
    """Share of the app's requests, 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class App:
    name: str
    request_types: tuple[RequestType, ...]
    """Shorter prompts first."""

    @property
    def components(self) -> tuple[ServedModel, ...]:
        """List the models that templates are built for, one a request type."""
        return tuple(each.served for each in self.request_types)

    @property
    def shares(self) -> tuple[TypeShare, ...]:
        return tuple(TypeShare(each.served.name, DEFAULT_TYPE, each.share) for each in self.request_types)

    def longer(self, request_type: RequestType) -> str:
        """Name the request type that serves prompts too long for this one; empty: the type has no limit."""
        last = self.request_types[-1]
        return "" if last is request_type else last.served.name


def llm_app(served: ServedModel) -> App:
    """A text model as an app: one request type or, where some prompts of its shape are longer than `max_prompt_tokens`,
    one up to that length and one, `LONG`, for the longer ones.

    Both keep the objective; a budget that grows with the prompt (`ttft_ms_per_1k_prompt_tokens`) is then reckoned
    with the lengths of each type, so that a few long prompts no longer decide what the short ones need.
    """
    split = split_prompts(served.shape, served.slo.max_prompt_tokens)
    if split.long is None:
        return App(served.name, (RequestType(DEFAULT_TYPE, served, 1.0),))
    own = replace(served, name=serving_id(served.name, LONG), slo=replace(served.slo, max_prompt_tokens=0))
    longer = RequestType(LONG, _part(own, split.long, split.long_share), split.long_share)
    if split.short is None:
        return App(served.name, (longer,))
    share = 1 - split.long_share
    return App(served.name, (RequestType(DEFAULT_TYPE, _part(served, split.short, share), share), longer))


def whole_of(short: ServedModel, longer: ServedModel) -> ServedModel:
    """Return the model that `llm_app` made these two request types of, as it is without `max_prompt_tokens`."""
    limit = short.slo.max_prompt_tokens
    shape = joined_prompts(short.shape, longer.shape, limit)
    slo, arrivals = replace(short.slo, max_prompt_tokens=0), replace(short.arrivals, share=1.0)
    return replace(short, slo=slo, shape=shape, arrivals=arrivals)


def _part(served: ServedModel, shape: WorkloadShape, share: float) -> ServedModel:
    """Lengths have nothing to do with when requests come: each part has its share of all bursts."""
    return replace(served, shape=shape, arrivals=replace(served.arrivals, share=share))
