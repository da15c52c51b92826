"""Attributes and their types. Scalars and collections of them are types of Terraform's own; objects are nested
attributes, whose optional ones may be left out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Scalar(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    JSON = "json"
    """A string for Terraform; two texts of one document are the same value."""


class Collection(StrEnum):
    LIST = "list"
    SET = "set"
    MAP = "map"


class Nesting(StrEnum):
    SINGLE = "single"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Many:
    collection: Collection
    item: Scalar


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a value, or of each value of a collection."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    whole: bool = False
    one_of: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression that the whole text has to match."""
    longest: int | None = None
    """Characters."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute that is neither `required` nor `computed` is optional, and `default` where it is left out."""

    name: str
    description: str
    type: "Type" = Scalar.STRING
    required: bool = False
    computed: bool = False
    """Read-only: Medley gives the value."""
    default: Any = None
    sensitive: bool = False
    replaces: bool = False
    """A change of it destroys the resource and makes a new one."""
    limits: Limits = Limits()

    @property
    def optional(self) -> bool:
        return not self.required and not self.computed


@dataclass(frozen=True, slots=True)
class Nested:
    nesting: Nesting
    attributes: tuple[Attribute, ...]

    @property
    def one(self) -> "Nested":
        """The type of one of its objects."""
        return Nested(Nesting.SINGLE, self.attributes)

    def named(self, name: str) -> Attribute:
        return next(each for each in self.attributes if each.name == name)


Type = Scalar | Many | Nested


def computed(name: str, description: str, kind: Type = Scalar.STRING) -> Attribute:
    """Return an attribute that Medley gives the value of."""
    return Attribute(name, description, kind, computed=True)
