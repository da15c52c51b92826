"""Serves the official providers' schemas to a real `terraform`: it checks every name, type and reference of a
configuration against them, and plans. Nothing can be applied.

    python -m tests.terraform.official.provider WHEELS MODULE...

prints what `TF_REATTACH_PROVIDERS` is to be as one line, and serves until its input ends. It runs in an environment
that has grpcio and msgpack.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import msgpack

from tests.terraform.official.bindings import Argument, Bindings, Block
from tests.terraform.official.wire import part, parts, schema, schemas

_UNKNOWN = msgpack.ExtType(0, b"\0")
_USED = re.compile(r'^(resource|data) "(([a-z]+)_\w+)"', re.MULTILINE)

# CDK for Terraform knows no ephemeral resources; this one is the whole of what modules use.
_EPHEMERAL = {
    "random_password": Block(
        {
            **{name: Argument("bool", False, True, True) for name in ("special", "upper", "lower", "numeric")},
            "length": Argument("number", True, False, False),
            "override_special": Argument("string", False, True, False),
            "result": Argument("string", False, False, True),
        }
    )
}


class Schemas:
    """One provider. Times, clouds and states are none of its business."""

    def __init__(self, provider: str, wheels: Path, used: Iterable[tuple[str, str]]) -> None:
        """`used`: (`resource` or `data`, type)."""
        self._ephemeral = {name: block for name, block in _EPHEMERAL.items() if name.startswith(f"{provider}_")}
        kinds: dict[str, dict[str, str]] = {"resource": {}, "data": {}}
        for what, name in used:
            folder = name.removeprefix(f"{provider}_").replace("_", "-")
            kinds[what][name] = f"data-{provider}-{folder}" if what == "data" else folder
        bindings = Bindings(next(wheels.glob(f"cdktf_cdktf_provider_{provider}-*.whl")))
        blocks = bindings.blocks(["provider", *kinds["resource"].values(), *kinds["data"].values()])
        self._provider = blocks["provider"]
        self._resources, self._data = (
            {name: blocks[folder] for name, folder in kinds[what].items() if folder in blocks}
            for what in ("resource", "data")
        )

    def methods(self) -> Mapping[str, Callable[[bytes], bytes]]:
        return {
            "GetProviderSchema": self._schema,
            "PlanResourceChange": self._plan,
            "ReadDataSource": self._read,
            "OpenEphemeralResource": self._open,
            **dict.fromkeys(
                [
                    "ValidateProviderConfig", "ValidateResourceConfig", "ValidateDataResourceConfig", "StopProvider",
                    "ValidateEphemeralResourceConfig", "CloseEphemeralResource", "ConfigureProvider",
                ],
                lambda _: b"",
            ),
        }  # fmt: skip

    def _schema(self, _: bytes) -> bytes:
        return (
            part(1, schema(self._provider)) + schemas(2, self._resources) + schemas(3, self._data)
            + schemas(8, self._ephemeral)
        )  # fmt: skip

    def _plan(self, request: bytes) -> bytes:
        """As every provider does where nothing exists yet: what only it can tell is not known before it is applied."""
        given = parts(request)
        proposed = _value(given[3])
        if proposed is None:
            return part(1, given[3])
        return part(1, _dynamic(_planned(self._resources[given[1].decode()], proposed))) + part(5, True)

    def _read(self, request: bytes) -> bytes:
        given = parts(request)
        config = _value(given[2])
        for name, argument in self._data[given[1].decode()].arguments.items():
            if argument.computed and config.get(name) is None:
                config[name] = _made_up(name, argument)
        return part(1, _dynamic(config))

    def _open(self, request: bytes) -> bytes:
        config = _value(parts(request)[2])
        return part(3, _dynamic({**config, "result": "x" * int(config["length"])}))


def _planned(block: Block, proposed: dict[str, Any]) -> dict[str, Any]:
    planned = dict(proposed)
    for name, argument in block.arguments.items():
        if name.endswith("_wo"):
            planned[name] = None
        elif argument.computed and planned.get(name) is None:
            planned[name] = _UNKNOWN
    for name, (_, inside) in block.blocks.items():
        given = planned[name]
        if isinstance(given, list):
            planned[name] = [_planned(inside, one) if isinstance(one, dict) else one for one in given]
        elif isinstance(given, dict):
            planned[name] = _planned(inside, given)
    return planned


def _value(dynamic: bytes) -> Any:
    return msgpack.unpackb(parts(dynamic)[1], strict_map_key=False)


def _dynamic(value: object) -> bytes:
    return part(1, msgpack.packb(value))


def _made_up(name: str, argument: Argument) -> object:
    if argument.nested is not None:
        return None if argument.nesting == "single" else []
    known = {
        "account_id": "123456789012",
        "region": "us-east-1",
        "partition": "aws",
        "json": "{}",
        "number": "1234567890",
    }
    if not isinstance(argument.type, str):
        return {"Name": "made-up"} if argument.type[0] == "map" else []  # type: ignore[index]
    by_type = {"string": known.get(name, "10.0.0.0/24" if "cidr" in name else "made-up"), "number": 1, "bool": False}
    return by_type.get(argument.type)


def _serve(one: Schemas, address: str) -> grpc.Server:
    def handler(answer: Callable[[bytes], bytes]) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, _: answer(request))

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 64 << 20)])
    handlers = {name: handler(answer) for name, answer in one.methods().items()}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tfplugin6.Provider", handlers)])
    server.add_insecure_port(f"unix:{address}")
    server.start()
    return server


def main(wheels: Path, modules: list[Path]) -> None:
    text = "\n".join(file.read_text() for module in modules for file in module.glob("*.tf"))
    used = {(what, name, provider) for what, name, provider in _USED.findall(text)} | {("data", "", "random")}
    with tempfile.TemporaryDirectory() as folder:
        reattach, servers = {}, []
        for provider in sorted({provider for *_, provider in used}):
            one = Schemas(provider, wheels, [(what, name) for what, name, owner in used if name and owner == provider])
            servers.append(_serve(one, f"{folder}/{provider}"))
            reattach[f"registry.terraform.io/hashicorp/{provider}"] = {
                "Protocol": "grpc", "ProtocolVersion": 6, "Pid": os.getpid(), "Test": True,
                "Addr": {"Network": "unix", "String": f"{folder}/{provider}"},
            }  # fmt: skip
        print(json.dumps(reattach), flush=True)
        sys.stdin.read()
        for server in servers:
            server.stop(None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(module) for module in sys.argv[2:]])
