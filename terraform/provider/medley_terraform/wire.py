"""What Terraform sends and wants back: MessagePack, where the unknown is an extension."""

from typing import Any

import msgpack
from tf.gen import tfplugin_pb2 as pb

from medley_terraform.unknown import Unknown


def read(value: Any) -> Any:
    """A DynamicValue as dicts, lists and scalars. Numbers that no float holds exactly are decimal texts."""
    if not value.msgpack:
        return None
    return msgpack.unpackb(value.msgpack, ext_hook=Unknown, strict_map_key=False)


def written(value: Any) -> Any:
    return pb.DynamicValue(msgpack=msgpack.packb(value, default=_packed))


def _packed(value: Any) -> Any:
    if isinstance(value, Unknown):
        return msgpack.ExtType(value.code, value.data)
    raise TypeError(f"no value of Terraform: {value!r}")
