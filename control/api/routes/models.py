"""Models: those of the catalogue, and those that people have registered with their config.json."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from control.api.documented import problems
from control.api.etag import Version, tagged
from control.api.fleet_document import document_of
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.problem import ApiError, field_problem
from control.api.text import NewName, PathName
from control.db.database import Database
from control.db.errors import InUseError, NotStoredError
from control.db.fleets import PostgresFleets
from control.db.registered_models import PostgresModels, RegisteredModel
from control.fleet_file.own_model import OwnModel
from control.fleet_file.problem import SpecError
from templates_lib.models.catalogue import load_models, weights_places
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.nearest_name import nearest_name

router = api_router("models")
Config = Annotated[dict[str, Any], Field(description="config.json, as Hugging Face publishes it with the weights.")]
Weights = Annotated[
    str,
    Field(
        pattern=r"^$|^hf:[A-Za-z0-9._/@-]{1,250}$|^package:[A-Za-z0-9._-]{1,100}$|^path:/[ -~]{1,250}$",
        description="`hf:ORG/NAME@REVISION` on the Hugging Face hub, or where nodes find them: `package:NAME` or "
        "`path:/PATH`; empty: a fleet has to say it.",
    ),
]


class ModelChange(BaseModel):
    model_config = ConfigDict(extra="forbid")

    config: Config
    weights: Weights = ""


class NewModel(ModelChange):
    name: NewName


class Model(BaseModel):
    name: str
    source: Literal["catalogue", "registered"]
    revision: str
    layers: int
    hidden_size: int
    vocab_size: int
    dtype: str
    weight_bytes: float
    max_context_tokens: int
    weights: str = Field(description="Where nodes find them; empty: not stated.")
    config: dict[str, Any] | None = Field(description="The registered config.json; null for the catalogue's.")
    version: int = Field(description="0 for the catalogue's, which cannot be changed.")
    updated_at: datetime | None


@router.get("/models", responses=problems())
def list_models(services: ServicesOf, limit: Limit = 50, cursor: Cursor = None) -> Page[Model]:
    """List models by name, those of the catalogue and registered ones."""
    (last,) = after(cursor, str) or ("",)
    everything = sorted(_all(services.database), key=lambda model: model.name)
    rows = [model for model in everything if model.name > str(last)][: limit + 1]
    return page(rows, limit, lambda model: model, lambda model: (model.name,))


@router.post("/models", status_code=201, responses=problems(409, body=True))
def create_model(body: NewModel, act: ActOf, response: Response) -> Model:
    """Register an architecture, so that fleets may name it."""
    own = _own(body.name, body)
    if body.name in load_models():
        raise InUseError(f"the catalogue has a model {body.name!r}: choose another name")
    with act.as_one() as one:
        made = PostgresModels(one.database).create(own, act.now)
        one.record("model.created", f"registered model {body.name}", body.name)
    response.headers["Location"] = f"/api/v1/models/{body.name}"
    tagged(response, made.version)
    return _registered(made)


@router.post("/models:check", responses=problems(409, body=True))
def check_model(body: NewModel) -> Model:
    """Show what registering the model would make, or why it would be refused. Nothing is written."""
    own = _own(body.name, body)
    _refuse_catalogue(body.name)
    return _shown(own.spec(), "registered", own.weights).model_copy(update={"config": dict(own.config)})


@router.get("/models/{model}", responses=problems(404))
def get_model(model: PathName, response: Response, services: ServicesOf) -> Model:
    found = next((each for each in _all(services.database) if each.name == model), None)
    if found is None:
        known = [each.name for each in _all(services.database)]
        raise NotStoredError(f"model {model!r} is not known; {nearest_name(model, known)}")
    tagged(response, found.version)
    return found


@router.put("/models/{model}", responses=problems(404, 409, 412, 428, body=True))
def change_model(model: PathName, body: ModelChange, version: Version, act: ActOf, response: Response) -> Model:
    """Replace a registered model. Fleets that name it are planned with the new one from their next solve on."""
    _refuse_catalogue(model)
    with act.as_one() as one:
        changed = PostgresModels(one.database).replace(_own(model, body), version, act.now)
        one.record("model.changed", f"changed model {model}", model)
    tagged(response, changed.version)
    return _registered(changed)


@router.delete("/models/{model}", status_code=204, responses=problems(404, 409, 412, 428))
def delete_model(model: PathName, version: Version, act: ActOf) -> None:
    """Refused with 409 while a fleet names it."""
    _refuse_catalogue(model)
    with act.as_one() as one:
        users = _users(one.database, model)
        if users:
            raise InUseError(f"model {model!r} is used by fleet {', '.join(users)}: take it out of there first")
        PostgresModels(one.database).remove(model, version)
        one.record("model.removed", f"removed model {model}", model)


def _all(database: Database) -> list[Model]:
    places = weights_places()
    shipped = [_shown(spec, "catalogue", places.get(spec.id, "")) for spec in load_models().values()]
    return shipped + [_registered(each) for each in PostgresModels(database).all()]


def _registered(found: RegisteredModel) -> Model:
    shown = _shown(found.own.spec(), "registered", found.own.weights)
    more = {"config": dict(found.own.config), "version": found.version, "updated_at": found.updated_at}
    return shown.model_copy(update=more)


def _shown(spec: ModelSpec, source: Literal["catalogue", "registered"], weights: str) -> Model:
    return Model(
        name=spec.id, source=source, revision=spec.revision, layers=spec.layers, hidden_size=spec.hidden_size,
        vocab_size=spec.vocab_size, dtype=spec.dtype, weight_bytes=spec.weight_bytes,
        max_context_tokens=spec.max_context_tokens, weights=weights, config=None, version=0, updated_at=None,
    )  # fmt: skip


def _own(name: str, body: ModelChange) -> OwnModel:
    own = OwnModel(name, body.config, body.weights)
    try:
        own.spec()
    except UnsupportedModelError as error:
        raise ApiError(422, "invalid", str(error), errors=[field_problem(("config", error.key), error.why)]) from None
    except ValueError as error:
        raise ApiError(422, "invalid", str(error), errors=[field_problem(("config",), str(error))]) from None
    return own


def _refuse_catalogue(model: str) -> None:
    if model in load_models():
        raise ApiError(
            409, "conflict", f"model {model!r} is in the catalogue that Medley ships: register yours under another name"
        )


def _users(database: Database, model: str) -> list[str]:
    found = []
    for fleet in PostgresFleets(database).all():
        try:
            named = [each.get("model") for each in document_of(fleet.spec).get("models", [])]
        except (SpecError, AttributeError, TypeError):  # it cannot be planned, and says so elsewhere
            continue
        if model in named:
            found.append(fleet.name)
    return found
