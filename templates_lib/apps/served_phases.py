"""Whether the engine of a served model serves it in the phases that it is to have."""

from templates_lib.apps.served_model import ServedModel
from templates_lib.values.engine_limits import refusal_of_phases
from templates_lib.values.engines import support_of


def phases_refused(served: ServedModel) -> str | None:
    """Say why not, and what to do; None: it does."""
    model, is_latent = served.model, served.model.latent_attention is not None
    support = support_of(served.engine)
    return refusal_of_phases(served.engine, support, served.name, served.phases, model.kv_dtype, is_latent=is_latent)
