"""A name of a registry in a file: whatever is registered when the file is checked may be named."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from control.fleet_file.section import known


@dataclass(frozen=True, slots=True)
class RegisteredName:
    """Annotates `str`."""

    names: Callable[[], Collection[str]]
    """Asked at each check, and when a schema is written, which lists them."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(lambda name: known("value", name, self.names()), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"enum": list(self.names())}
