"""What models read beside text, and the answer to a request that brings what its model does not read."""

from collections.abc import Sequence

from control.gateway.api_error import bad_request
from control.gateway.media.part import MediaPart
from control.gateway.model_entry import ModelEntry
from templates_lib.graphs.component import Modality

UNSUPPORTED = "unsupported_modality"
_NAMES = {Modality.TEXT: "text", Modality.IMAGE: "images", Modality.AUDIO: "audio"}


def read_modalities(model: ModelEntry) -> tuple[Modality, ...]:
    return (Modality.TEXT,) if model.reading is None else model.reading.modalities


def check_modalities(parts: Sequence[MediaPart], model: ModelEntry) -> None:
    """Raise ApiError 400 for the first part that the model does not read."""
    taken = read_modalities(model)
    for part in parts:
        if part.modality not in taken:
            what = " and ".join(_NAMES[each] for each in taken)
            why = f"`{part.where}` is {_NAMES[part.modality]}, and `{model.id}` takes {what}"
            raise bad_request(f"{why}. See `input_modalities` in /v1/models", "messages", UNSUPPORTED)
