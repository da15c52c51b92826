"""Base of the sections of a spec file."""

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo

from control.fleet_file.names import Names
from control.given_name import NAME_PATTERN
from templates_lib.values.nearest_name import nearest_name

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
FilePath = Annotated[str, Field(json_schema_extra={"format": "path"})]
"""A file of the machine that reads the spec: a spec that is sent may not name one."""


class SpecSection(BaseModel):
    # The docstrings of fields are what the API's document and Terraform's documentation say of them.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def known(kind: str, name: str, valid: Collection[str]) -> str:
    """The name. Raises ValueError with the nearest of `valid` when it is none of them."""
    if name not in valid:
        raise ValueError(f"unknown {kind} {name!r}; {nearest_name(name, valid)}")
    return name


def names_of(info: ValidationInfo) -> Names:
    """Return the names that the file may use."""
    names = info.context
    assert isinstance(names, Names)  # noqa: S101 - read() always passes them
    return names


def check_different(what: str, names: Sequence[str], more: str = "") -> None:
    """Raise ValueError, which ends with `more`, where one of `names` occurs twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what} must have different names; {', '.join(twice)} occurs twice{more}")


def is_task_file(name: str) -> bool:
    """Tell whether a task is given as a file, not as one that ships."""
    return ":" in name or is_path(name) or name.endswith(".py")


def is_path(name: str) -> bool:
    """Tell whether a model or shape is given as a file, not as a name of the catalogue."""
    return "/" in name or name.endswith((".json", ".csv", ".csv.gz"))
