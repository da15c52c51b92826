"""Whether the engines of a served model serve it in the phases that it is to have."""

from collections.abc import Sequence
from dataclasses import replace

from templates_lib.apps.served_model import HeldModel, ServedModel
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.engine_limits import refusal_of_phases
from templates_lib.values.engines import support_of


def phases_refused(served: ServedModel) -> str | None:
    """Say why one of them does not, and what to do; None: all do."""
    return next(filter(None, map(_refused, served.by_engine())), None)


def served_by(served: ServedModel, held: Sequence[HeldModel]) -> ServedModel:
    """`served` by those of these engines, the preferred one first, that serve it in its phases, and hand KV caches over
    to each other where prompts and answers are apart. Raises ValueError with why not, where none does."""
    each = [replace(served, engine=one.engine, model=one.model) for one in held]
    able = [one for one in each if phases_refused(one) is None]
    if not able:
        raise ValueError(phases_refused(each[0]))
    first, *others = able
    alike = [one for one in others if not served.disaggregated or _hands_over(first.model) == _hands_over(one.model)]
    return replace(first, others=tuple(HeldModel(one.engine, one.model) for one in alike))


def _hands_over(model: ModelSpec) -> tuple[str, float]:
    """Return what KV caches have to have in common: the type of their numbers, and the bytes of a token in a layer."""
    return model.kv_dtype, model.kv_bytes_per_token_per_layer


def _refused(served: ServedModel) -> str | None:
    model, is_latent = served.model, served.model.latent_attention is not None
    support = support_of(served.engine)
    return refusal_of_phases(served.engine, support, served.name, served.phases, model.kv_dtype, is_latent=is_latent)
