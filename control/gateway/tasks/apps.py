"""The apps of the table: clients call them as models, and their requests are served by the models of their types."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from control.gateway.api_error import bad_request, unknown_model
from control.gateway.generation_params import Conversation, GenerationParams
from control.gateway.media.media_unit import MediaUnits
from control.gateway.model_entry import ModelEntry
from control.gateway.published_app import ServedApp
from control.gateway.tasks.app_entry import AppEntry
from control.gateway.tasks.task_call import TaskCall, TaskRequest
from control.gateway.wanted import WantedAnswer
from medley_sdk.values import Signature
from templates_lib.graphs.component import Modality
from templates_lib.tasks.samples import type_of


class Apps:
    """Make it on a running loop."""

    def __init__(self) -> None:
        self.entries: dict[str, AppEntry] = {}
        self.parts: frozenset[str] = frozenset()
        """Models of the table that serve a request type: clients do not call them by name."""

    def update(self, served: Iterable[ServedApp], models: Mapping[str, ModelEntry]) -> None:
        """Take a new table. Code that is the same goes on in its process."""
        before, self.entries = self.entries, {}
        for app in served:
            types = {kind: models[name] for kind, name in app.types.items() if name in models}
            entry = before.pop(app.name, None)
            if entry is not None and entry.served.task != app.task:
                entry.close()
                entry = None
            if entry is None:
                entry = AppEntry(app, types)
            else:
                entry.update(app, types)
            self.entries[app.name] = entry
        for gone in before.values():
            gone.close()
        self.parts = frozenset(name for entry in self.entries.values() for name in entry.served.types.values())

    def close(self) -> None:
        for entry in self.entries.values():
            entry.close()

    def resolve(self, params: GenerationParams) -> tuple[GenerationParams, TaskRequest | None]:
        """The request as one to the model that serves its type; None: it is for no app. Raises ApiError."""
        entry = self.entries.get(params.model)
        if entry is None:
            if params.model in self.parts:
                raise unknown_model(params.model, self.entries)
            return params, None
        if len(params.prompts) != 1:
            raise bad_request("An app takes one prompt a request: send several requests", "prompt")
        signature = _signature(params, entry)
        model = entry.model_of(type_of(signature))
        return replace(params, model=model.id), TaskRequest(entry, signature, model)

    async def call(self, asked: TaskRequest | None, units: MediaUnits | None, wanted: WantedAnswer) -> TaskCall | None:
        """What an answer to the request asks of executors. Raises ApiError."""
        if asked is None or asked.model.reading is None:
            return None
        found = units or MediaUnits(())
        graphs = await asked.app.graphs(asked.signature, asked.model, found)
        return TaskCall(asked.app, graphs, asked.model.reading, found, wanted.places)


def _signature(params: GenerationParams, entry: AppEntry) -> Signature:
    """All that the code of a task may know of a request for text. Text is there wherever the app takes some."""
    prompts = params.prompts
    media = [part.modality for each in prompts if isinstance(each, Conversation) for part in each.media]
    return Signature("text", entry.takes_text, media.count(Modality.IMAGE), media.count(Modality.AUDIO))
