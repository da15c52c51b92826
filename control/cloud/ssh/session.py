"""One request to one host through the system's SSH client, with the host's key pinned."""

import json
import os
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from control.cloud.errors import CloudError, GiveUpError, OwnFaultError, RetryLaterError, UnauthorisedError
from control.cloud.ssh.own_host import OwnHost
from templates_lib.values.offer import Market

CONNECT_S = 10
REQUEST_S = 40
"""Seconds for a whole request: to end a node takes up to 12 seconds, and a host may be slow."""
RETRY_S = 5.0
_OF_SSH, _NO_PYTHON = 255, (126, 127)
"""Exit status: the client's own; a shell's for a command that it cannot start."""
_MAX_ANSWER = 1 << 20
_RECEIVE = "import sys;n=int(sys.stdin.readline());exec(compile(sys.stdin.read(n),'medley','exec'))"
_REFUSED = ("Permission denied", "Too many authentication failures", "no mutual signature", "Load key", "UNPROTECTED")
_STRANGER = ("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", "No matching host key")


class HostNode(msgspec.Struct, frozen=True):
    """The record of a node as its host has it. What comes from a host is checked like anything from a network."""

    name: str
    instance_type: str
    zone: str
    market: Market
    tags: dict[str, str]
    state: str
    leader: dict[str, str | int] | None = None


class HostReply(msgspec.Struct, frozen=True):
    node: HostNode | None = None
    gone: bool | None = None
    refused: str = ""
    printed: str = ""


def ask(host: OwnHost, request: dict[str, Any]) -> HostReply:
    """Raises RetryLaterError for a host that cannot be reached, UnauthorisedError where it does not know us or we do
    not know it, GiveUpError for one that cannot run nodes."""
    sent = f"{len(_source())}\n{_source()}{json.dumps(request)}"
    with tempfile.TemporaryDirectory(prefix="medley-ssh-") as folder:
        known = Path(folder) / "known_hosts"
        known.write_text(f"{host.name} {host.host_key}\n")
        try:
            done = subprocess.run(
                (*_client(host, known), f'python3 -c "{_RECEIVE}"'),
                input=sent.encode(),
                capture_output=True,
                timeout=REQUEST_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except FileNotFoundError:
            raise OwnFaultError("own machines need the program ssh (package openssh-client) on this machine") from None
        except subprocess.TimeoutExpired:
            raise RetryLaterError(f"host {host.name}: no answer within {REQUEST_S} s", RETRY_S) from None
    if done.returncode != 0:
        raise _error(host, done.returncode, done.stderr)
    try:
        return msgspec.json.decode(done.stdout[:_MAX_ANSWER], type=HostReply)
    except msgspec.DecodeError as error:
        raise GiveUpError(
            f"host {host.name} answers what is no answer of ours ({error}): see its shell's start files"
        ) from None


def _client(host: OwnHost, known: Path) -> tuple[str, ...]:
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known),
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "HostKeyAlias": host.name,
        "ConnectTimeout": str(CONNECT_S),
        "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "PasswordAuthentication": "no",
        "RequestTTY": "no",
        "LogLevel": "ERROR",
    }
    if host.key_file is not None:
        options |= {"IdentitiesOnly": "yes", "IdentityAgent": "none", "IdentityFile": f'"{host.key_file}"'}
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return ("ssh", "-T", *given, "-p", str(host.port), "-l", host.user, "--", host.address)


def _error(host: OwnHost, status: int, stderr: bytes) -> CloudError:
    said = " ".join(stderr.decode(errors="replace").split())[-300:]
    where = f"host {host.name} ({host.user}@{host.address}:{host.port})"
    if status in _NO_PYTHON:
        return GiveUpError(f"{where} cannot run nodes: it needs python3 where a plain shell finds it. {said}")
    if status != _OF_SSH:
        return RetryLaterError(f"{where} could not do it: {said}", RETRY_S)
    if any(sign in said for sign in _STRANGER):
        return UnauthorisedError(f"{where} has another key than the spec's host_key: nothing was sent to it. {said}")
    if any(sign in said for sign in _REFUSED):
        return UnauthorisedError(f"{where} does not let us in: check user, key_file and its authorized_keys. {said}")
    # One host whose name is wrong must not stop the others: only what concerns all of them is a fault of ours.
    return RetryLaterError(f"{where} cannot be reached: {said}", RETRY_S)


@cache
def _source() -> str:
    return files("control.cloud.ssh").joinpath("host_side.py").read_text(encoding="utf-8")
