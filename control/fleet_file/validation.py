"""A document held to a schema; what does not fit it is said at its line, with the nearest name that would."""

from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from control.fleet_file.document import Document
from control.fleet_file.problem import SpecError, SpecProblem
from templates_lib.values.nearest_name import nearest_name

Schema = TypeVar("Schema", bound=BaseModel)


def validated(document: Document, schema: type[Schema], context: object = None) -> Schema:
    """Raises SpecError with every problem that the schema sees."""
    if not isinstance(document.value, dict):
        raise SpecError([document.problem((), "must be a mapping that starts with apiVersion: medley/v1")])
    try:
        return schema.model_validate(document.value, context=context)
    except ValidationError as error:
        raise SpecError(_problem(document, schema, e) for e in error.errors(include_url=False)) from None


def _problem(document: Document, schema: type[BaseModel], error: Any) -> SpecProblem:
    key = tuple(error["loc"])
    return document.problem(key, complaint(schema, key, error))


def complaint(schema: type[BaseModel], key: tuple[str | int, ...], error: Any) -> str:
    """An error of pydantic in our words, with its place and the nearest name that would do."""
    place = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in key).lstrip(".")
    found = error["input"]
    match error["type"]:
        case "extra_forbidden":
            text = f"unknown key {place!r}; {nearest_name(str(key[-1]), _fields(schema, key[:-1]))}"
        case "missing":
            text = f"{place} is missing"
        case "value_error":
            text = f"{place}: {error['ctx']['error']}" if place else str(error["ctx"]["error"])
        case _ if found is None:
            text = f"{place} has no value; give one or remove the key"
        case "literal_error" | "enum":
            names = error["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
            text = f"{place}: unknown value {found!r}; {nearest_name(str(found), names)}"
        case "too_short":
            text = f"{place} must have at least one entry"
        case _:
            message = error["msg"].replace("Input should be", "must be")
            text = f"{place}: {message[0].lower()}{message[1:]}, is {_short(found)}"
    return text


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fields(schema: type[BaseModel], key: tuple[str | int, ...]) -> set[str]:
    """The keys that the schema knows at `key`."""
    here: Any = schema
    for part in key:
        sections = _sections(here)
        if isinstance(part, str) and sections and part in sections[0].model_fields:
            here = sections[0].model_fields[part].annotation
    found = _sections(here)
    return set(found[0].model_fields) if found else set()


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The schema classes inside an annotation such as `list[Section] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    if get_origin(annotation) in (list, dict, Union, UnionType) or get_args(annotation):
        return [s for a in get_args(annotation) for s in _sections(a)]
    return []
