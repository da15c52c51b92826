"""A fleet's spec as a JSON document: the same as in a YAML file, checked by the same rules."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from control.api.problem import ApiError, FieldProblem, field_problem
from control.fleet_file.document import MAX_DEPTH, MAX_NODES, Document, parse
from control.fleet_file.own_model import OwnModel
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.schema import FleetFile
from control.planning.world import World, world_of
from control.reconcile.fleet_world import refuse_paths


class _SpecSchema:
    """Schema of the spec in the OpenAPI document. `checked` checks a spec itself, and knows the names that it may
    use."""

    @classmethod
    def __get_pydantic_json_schema__(cls, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(FleetFile.__pydantic_core_schema__)


SpecDocument = Annotated[dict[str, Any], _SpecSchema]


def checked(spec: Mapping[str, Any], own: Collection[OwnModel]) -> World:
    """Raises ApiError 422 with every problem, at its path below `spec`.

    Files are named by paths on the machine that reads the spec, which a caller is not on: they are refused before one
    is opened.
    """
    document = Document("spec", dict(spec), {})
    try:
        _refuse_large(document.value)
        refuse_paths(document)
        return world_of(document, own)
    except SpecError as error:
        raise _invalid([field_problem(("spec", *p.key), p.message) for p in error.problems]) from None
    except ValueError as error:  # of the market that it describes
        raise _invalid([field_problem(("spec",), str(error))]) from None


def checked_source(source: str, own: Collection[OwnModel]) -> World:
    """Read a spec file's text. Raises SpecError with every problem, at its line."""
    document = parse(source, "spec")
    refuse_paths(document)
    try:
        return world_of(document, own)
    except SpecError:
        raise
    except ValueError as error:  # of the market that it describes
        raise SpecError([SpecProblem("spec", 0, str(error))]) from None


def document_of(text: str) -> dict[str, Any]:
    """A stored spec, which may have been written as YAML, as a JSON document. Raises SpecError for one that cannot be
    read any more: a release may have stored what the next one refuses."""
    value = parse(text, "spec").value
    if not isinstance(value, dict):
        raise SpecError([SpecProblem("spec", 1, "must hold fields")])
    return value


def _refuse_large(value: Any) -> None:
    """The bounds of a YAML file hold here, too."""
    count, left = 0, [(value, 0)]
    while left:
        found, depth = left.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise SpecError([SpecProblem("spec", 0, "too large or too deeply nested")])
        if isinstance(found, dict):
            left += [(each, depth + 1) for each in found.values()]
        elif isinstance(found, list):
            left += [(each, depth + 1) for each in found]


def _invalid(errors: list[FieldProblem]) -> ApiError:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ApiError(422, "invalid", f"{errors[0].message}{more}", errors=errors)
