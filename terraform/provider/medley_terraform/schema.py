"""The schema of a resource or data source, of which Terraform, validation and the documentation are made."""

import json
from dataclasses import dataclass
from typing import Any

from tf.gen import tfplugin_pb2 as pb

from medley_terraform.types import Attribute, Many, Nested, Nesting, Scalar

State = dict[str, Any]
"""Plain values by attribute; `Unknown` where Terraform does not know one yet."""
_NESTING = {
    Nesting.SINGLE: pb.Schema.Object.SINGLE,
    Nesting.LIST: pb.Schema.Object.LIST,
    Nesting.MAP: pb.Schema.Object.MAP,
}


@dataclass(frozen=True, slots=True)
class Schema:
    description: str
    attributes: tuple[Attribute, ...]

    @property
    def shape(self) -> Nested:
        return Nested(Nesting.SINGLE, self.attributes)

    def message(self) -> Any:
        attributes = [_message(each) for each in self.attributes]
        block = pb.Schema.Block(attributes=attributes, description=self.description, description_kind=pb.MARKDOWN)
        return pb.Schema(version=0, block=block)


def _message(attribute: Attribute) -> Any:
    shape = (
        {"nested_type": _object(attribute.type)}
        if isinstance(attribute.type, Nested)
        else {"type": _type_json(attribute.type)}
    )
    return pb.Schema.Attribute(
        name=attribute.name,
        description=attribute.description,
        description_kind=pb.MARKDOWN,
        required=attribute.required,
        optional=attribute.optional,
        computed=attribute.computed or attribute.default is not None,
        sensitive=attribute.sensitive,
        **shape,
    )


def _object(kind: Nested) -> Any:
    attributes = [_message(each) for each in kind.attributes]
    return pb.Schema.Object(attributes=attributes, nesting=_NESTING[kind.nesting])


def _type_json(kind: Scalar | Many) -> bytes:
    if isinstance(kind, Many):
        return json.dumps([kind.collection, _name(kind.item)]).encode()
    return json.dumps(_name(kind)).encode()


def _name(kind: Scalar) -> str:
    return "string" if kind is Scalar.JSON else kind.value
