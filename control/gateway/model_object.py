"""A model as `/v1/models` lists it, with its context and what a million of its tokens cost now."""

from math import inf

from control.gateway.media.modality import read_modalities
from control.gateway.model_entry import ModelEntry
from control.gateway.tasks.app_entry import AppEntry
from templates_lib.graphs.component import Modality

_SECONDS_PER_HOUR = 3600.0


def model_object(model: ModelEntry) -> dict[str, object]:
    return {
        "id": model.id,
        "object": "model",
        "created": model.served.created,
        "owned_by": "medley",
        # What any prompt and answer may have together: a client that keeps to it is never refused for its length.
        "max_model_len": model.served.most_prompt_tokens,
        "input_modalities": list(read_modalities(model)),
        "output_modalities": [Modality.TEXT],
        "max_images": 0 if model.reading is None or model.reading.images is None else model.reading.terms.max_images,
        "context_tokens": model.served.context_tokens,
        "usd_per_million_tokens": usd_per_million_tokens(model),
    }


def app_object(app: AppEntry) -> dict[str, object] | None:
    """The app as its type with the shortest context has it, and what its types read; None: none of them is loaded."""
    models = sorted(app.types.values(), key=lambda each: each.served.most_prompt_tokens)
    if not models:
        return None
    read = {word for kind in app.types for word in kind.partition("-to-")[0].split("-")}
    modalities = [each for each in Modality if each in read]
    made = {kind.rpartition("-to-")[2] for kind in app.types}
    about = {
        "id": app.served.name,
        "input_modalities": modalities,
        "output_modalities": [each for each in Modality if each in made],
        "request_types": sorted(app.types),
    }
    # The tightest context: whatever type a request is of, it is not refused for a length within it.
    return model_object(models[0]) | about


def usd_per_million_tokens(model: ModelEntry) -> float | None:
    """Dollars for a million tokens, prompts and answers of mean requests together, were the instances that can be used
    now busy all the time. None: the table does not say what all of them cost, or nothing can be used."""
    served, unusable = model.served, model.unusable
    members = [member for member in served.routing.members if member.id not in unusable]
    # An executor of a unit shares the price of its instance with others: what is its own, the table does not say.
    if not members or any(member.usd_per_hour <= 0 or "/" in member.id for member in members):
        return None
    requests_per_s = min(
        (
            rate.units_per_s / (rate.leg.units_per_request * rate.share)
            for rate in served.routing.rates(unusable)
            if rate.share > 0
        ),
        default=0.0,
    )
    tokens_per_hour = requests_per_s * (served.mean_prompt_tokens + served.mean_output_tokens) * _SECONDS_PER_HOUR
    price = sum(member.usd_per_hour for member in members) * 1e6 / tokens_per_hour if tokens_per_hour > 0 else inf
    return round(price, 6) if price < inf else None
