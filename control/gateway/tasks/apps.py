"""The apps of the table: clients call them as models, and their requests are served by the models of their types."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from control.gateway.api_error import ApiError, bad_request, unavailable, unknown_model
from control.gateway.generation_params import GenerationParams, media_of
from control.gateway.media.media_unit import MediaUnits
from control.gateway.media.modality import UNSUPPORTED
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

    def named(self, models: Mapping[str, ModelEntry]) -> dict[str, ModelEntry]:
        """What clients may name, of the table's models and of apps: of these a model with its tokenizer."""
        of_apps = {name: next(iter(entry.types.values())) for name, entry in self.entries.items() if entry.types}
        return {name: model for name, model in models.items() if name not in self.parts} | of_apps

    def resolve(self, params: GenerationParams, models: Collection[str]) -> tuple[GenerationParams, TaskRequest | None]:
        """The request as one to the model that serves its type; None: it is for no app. `models`: what else clients may
        name. Raises ApiError."""
        entry = self._entry(params.model, models)
        if params.answer is not Modality.TEXT:
            made = _check_made(params.model, entry, params.answer, "modalities")
            if made and Modality.TEXT not in made:
                raise _writes_nothing(params.model, params.answer)
        if entry is None:
            return params, None
        if len(params.prompts) != 1:
            raise bad_request("An app takes one prompt a request: send several requests", "prompt")
        signature = _signature(params, entry)
        model = entry.model_of(type_of(signature))
        return replace(params, model=model.id), TaskRequest(entry, signature, model)

    def making(self, name: str, answer: Modality, models: Collection[str]) -> TaskRequest:
        """A request for sound or pictures of a text, to the model that serves its type. `models`: what else clients
        may name. Raises ApiError."""
        entry = self._entry(name, models)
        _check_made(name, entry, answer, "model")
        assert entry is not None  # noqa: S101 - for the type checker: models make text alone
        signature = Signature(answer)
        return TaskRequest(entry, signature, entry.model_of(type_of(signature)))

    async def call(self, asked: TaskRequest | None, units: MediaUnits | None, wanted: WantedAnswer) -> TaskCall | None:
        """What an answer to the request asks of executors. Raises ApiError."""
        if asked is None:
            return None
        reading, found = asked.model.reading, units or MediaUnits(())
        if reading is None:
            raise unavailable(f"The table lacks the config of `{asked.app.served.name}`")
        graphs = await asked.app.graphs(asked.signature, asked.model.served.routing, reading.graph, found)
        if any(each.is_made for each in graphs.values()):
            raise _writes_nothing(asked.app.served.name, asked.signature.answer)
        return TaskCall(asked.app, graphs, reading, found, wanted.places)

    def _entry(self, name: str, models: Collection[str]) -> AppEntry | None:
        """Return the app of a name, and None for a model. Raises ApiError for what is neither."""
        entry = self.entries.get(name)
        if entry is None and (name in self.parts or name not in models):
            raise unknown_model(name, {*self.entries, *models} - self.parts)
        return entry


def _check_made(name: str, entry: AppEntry | None, answer: Modality, param: str) -> set[str]:
    """Return what the app, or the model, answers with; nothing, where the plan serves no type of it. Raises ApiError
    that names `param` where this is not among it."""
    kinds = ("text-to-text",) if entry is None else entry.served.types
    made = {kind.rpartition("-to-")[2] for kind in kinds}
    if made and answer not in made:
        why = f"`{name}` makes {', '.join(sorted(made))}, and no {answer}. See `output_modalities` in /v1/models"
        raise bad_request(why, param, UNSUPPORTED)
    return made


def _writes_nothing(name: str, answer: str) -> ApiError:
    """Of a chat whose answer would be made of its own last words."""
    why = f"`{name}` makes {answer} of a text that it is sent, and writes none that could be an answer"
    path = "/v1/audio/speech" if answer == Modality.AUDIO else "/v1/images/generations"
    return bad_request(f"{why}. Send the text to {path}", "modalities", UNSUPPORTED)


def _signature(params: GenerationParams, entry: AppEntry) -> Signature:
    """All that the code of a task may know of a prompt's request. Text is there wherever the app takes some, or nothing
    else is."""
    media = [part.modality for each in params.prompts for part in media_of(each)]
    images, sounds = media.count(Modality.IMAGE), media.count(Modality.AUDIO)
    return Signature(params.answer, entry.takes_text or not media, images, sounds)
