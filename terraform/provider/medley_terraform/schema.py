"""The schema of a resource or data source, of which Terraform, validation and the documentation are made."""

import json
from dataclasses import dataclass
from typing import Any

from tf.gen import tfplugin_pb2 as pb

from medley_terraform.types import Many, Nested, Nesting, Scalar, Type

State = dict[str, Any]
"""Plain values by attribute; `Unknown` where Terraform does not know one yet."""
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_NESTING = {
    Nesting.SINGLE: pb.Schema.Object.SINGLE,
    Nesting.LIST: pb.Schema.Object.LIST,
    Nesting.MAP: pb.Schema.Object.MAP,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a value has to keep, or, of a collection, each of its values."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    whole: bool = False
    one_of: tuple[str, ...] = ()
    pattern: str = ""
    """Of the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """Neither `required` nor `computed`: optional, and `default` where it is left out."""

    name: str
    type: Type = Scalar.STRING
    description: str
    required: bool = False
    computed: bool = False
    """Read only: Medley says it."""
    default: Any = None
    sensitive: bool = False
    replaces: bool = False
    """A change makes a new one."""
    limits: Limits = Limits()

    @property
    def optional(self) -> bool:
        return not self.required and not self.computed

    def message(self) -> Any:
        shape = (
            {"nested_type": _object(self.type)} if isinstance(self.type, Nested) else {"type": _type_json(self.type)}
        )
        return pb.Schema.Attribute(
            name=self.name,
            description=self.description,
            description_kind=pb.MARKDOWN,
            required=self.required,
            optional=self.optional,
            computed=self.computed or self.default is not None,
            sensitive=self.sensitive,
            **shape,
        )


@dataclass(frozen=True, slots=True)
class Schema:
    description: str
    attributes: tuple[Attribute, ...]

    @property
    def shape(self) -> Nested:
        return Nested(Nesting.SINGLE, self.attributes)

    def message(self) -> Any:
        attributes = [each.message() for each in self.attributes]
        block = pb.Schema.Block(attributes=attributes, description=self.description, description_kind=pb.MARKDOWN)
        return pb.Schema(version=0, block=block)


def _object(kind: Nested) -> Any:
    attributes = [each.message() for each in kind.attributes]
    return pb.Schema.Object(attributes=attributes, nesting=_NESTING[kind.nesting])


def _type_json(kind: Scalar | Many) -> bytes:
    if isinstance(kind, Many):
        return json.dumps([kind.collection, _name(kind.item)]).encode()
    return json.dumps(_name(kind)).encode()


def _name(kind: Scalar) -> str:
    return "string" if kind is Scalar.JSON else kind.value
