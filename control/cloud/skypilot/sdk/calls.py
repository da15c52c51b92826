"""Calls of SkyPilot's SDK, one function each."""

import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import sky
import yaml
from sky import exceptions
from sky.client import sdk

from control.cloud.skypilot import messages
from control.cloud.skypilot.sdk.aws_zones import aws_zone
from control.cloud.skypilot.sdk.catalogue import instance_types, write_catalogue
from control.cloud.skypilot.sdk.machines import end_machine, machines
from control.cloud.skypilot.sdk.provision_log import cause_in
from control.file_lock import turn

_LOG_CHARS = 20_000
"""Characters kept of the end of a log: a vendor's code is in SkyPilot's last lines."""
_LOG_LINES = 400
"""Of SkyPilot's log of a launch, those at the end that tell why it broke off."""
_LOCKS = 256
_STALE = re.compile(r"^\s+(\S+): (.*(?:\n(?!\s+\S+: ).*)*)", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_REASONS_CHARS = 600
_REQUEST = ("request_id", "name", "cluster_name")
"""Of requests to SkyPilot's server, what tells one from another."""


def answer(call: messages.Call) -> messages.Reply:  # noqa: PLR0911
    """Answer a call. Never raises: a failure is an answer too."""
    try:
        match call:
            case messages.LaunchCluster():
                return _launch(call)
            case messages.Refresh():
                return _refresh(call.names, call.asks_clouds)
            case messages.Down():
                return _down(call.name)
            case messages.Tail():
                of_command = partial(sky.tail_logs, job_id=None)
                logs = (of_command,) if call.of_command else (sdk.tail_provision_logs, of_command)
                return messages.Text(_tail(call.name, *logs, lines=call.lines))
            case messages.Check():
                return messages.Checked(_check_credentials(call.clouds))
            case messages.SweepMachines():
                return messages.Machines(machines(call))
            case messages.EndMachine():
                end_machine(call)
                return messages.Ended()
            case messages.WriteCatalogue():
                write_catalogue(call.rows)
                return messages.Ended()
    except Exception as error:
        return _failed(error, "")


def _launch(call: messages.LaunchCluster) -> messages.Reply:
    log = io.StringIO()
    try:
        if call.cloud == "aws" and call.zone:
            call = msgspec.structs.replace(call, zone=aws_zone(call.region, call.zone))
        # Alone among all processes: a second launch of a cluster that is up would start the node's command twice.
        with _turn(call.name):
            request = _under_way().get(call.name)
            if request is None:
                known = _refresh((call.name,), asks_clouds=True).clusters
                if known and not _takes_up(known[0], call):
                    return _if_same(known[0], call)
                request = sky.launch(_task(call), cluster_name=call.name)
        sky.stream_and_get(request, output_stream=log)
    except ValueError as error:
        known_types = instance_types(call.cloud)
        return _failed(error, log.getvalue(), () if call.instance_type in known_types else known_types)
    except Exception as error:
        return _failed(error, log.getvalue(), cause=cause_in(_tail(call.name, sdk.tail_provision_logs)))
    left = _refresh((call.name,), asks_clouds=False).clusters  # it is up as of now, and on record
    return (
        _if_same(left[0], call)
        if left
        else messages.CallFailed("Gone", f"{call.name} was taken away while it was being launched")
    )


def _if_same(known: messages.ClusterRecord, call: messages.LaunchCluster) -> messages.Reply:
    place = (known.region if call.region else "", known.zone if call.zone else "")
    machine = (known.cloud, known.instance_type, known.spot)
    if (*machine, *place) == (call.cloud, call.instance_type, call.spot, call.region, call.zone):
        return known
    return messages.Other(f"{known.name} exists and is a {known.instance_type} in {known.zone or known.region}")


def _takes_up(known: messages.ClusterRecord, call: messages.LaunchCluster) -> bool:
    """Tell whether to launch what exists again: a launch of this very machine that was broken off goes on that way."""
    same = (known.cloud, known.instance_type, known.spot) == (call.cloud, call.instance_type, call.spot)
    return same and known.status == "INIT" and not known.ever_up


def _task(call: messages.LaunchCluster) -> sky.Task:
    """One node, and one place: what SkyPilot may not choose it need not fail over."""
    task = sky.Task(name="medley-node", setup=call.set_up, run=call.run, num_nodes=1)
    task.set_file_mounts(call.files)
    task.set_resources(
        sky.Resources(
            infra="/".join(part for part in (call.cloud, call.region, call.zone) if part),
            instance_type=call.instance_type,
            use_spot=call.spot,
            labels=call.labels,
            image_id=call.image or None,
            disk_size=call.disk_gib or None,
            ports=[str(port) for port in call.ports] or None,
        )
    )
    return task


def _refresh(names: Sequence[str] | None, asks_clouds: bool) -> messages.Clusters:
    """List clusters, and launches that SkyPilot has no cluster of yet: it may have them wait for their turn."""
    under_way = _under_way()
    log = io.StringIO()
    mode = sky.StatusRefreshMode.FORCE if asks_clouds else sky.StatusRefreshMode.NONE
    records = sky.stream_and_get(
        sky.status(None if names is None else list(names), refresh=mode, all_users=True), output_stream=log
    )
    listed = [_cluster(record, record["name"] in under_way) for record in records if record.get("handle")]
    waiting = under_way.keys() - {cluster.name for cluster in listed}
    listed += [cluster for name in waiting if names is None or name in names for cluster in _queued(name)]
    return messages.Clusters(tuple(listed), _stale(_COLOUR.sub("", log.getvalue())))


def _stale(log: str) -> dict[str, str]:
    _, found, rest = log.partition("Failed to refresh status for ")
    return dict(_STALE.findall(rest)) if found else {}


def _cluster(record: Any, launching: bool) -> messages.ClusterRecord:
    handle = record["handle"]
    machine = handle.launched_resources
    info = handle.cached_cluster_info
    return messages.ClusterRecord(
        name=record["name"],
        cloud=str(machine.cloud).lower(),
        region=machine.region or "",
        zone=machine.zone or "",
        instance_type=machine.instance_type or "",
        spot=machine.use_spot,
        status=record["status"].value,
        ever_up=bool(record["cluster_ever_up"]),
        launching=launching,
        provider_id=(info and info.head_instance_id) or handle.cluster_name_on_cloud,
        labels=dict(machine.labels or {}),
    )


def _queued(name: str) -> list[messages.ClusterRecord]:
    """Return what a launch that has no cluster yet was asked for, as far as it still is one."""
    found = []
    for request in sky.api_status(cluster_name=name, fields=[*_REQUEST, "request_body"]):
        tasks = yaml.safe_load_all((json.loads(request.request_body) or {}).get("task", ""))
        asked = [task["resources"] for task in tasks if task and "resources" in task]
        if not request.name.endswith("launch") or not asked:
            continue
        cloud, region, zone = (*asked[0].get("infra", "").lower().split("/"), "", "")[:3]
        found.append(
            messages.ClusterRecord(
                name=name,
                cloud=cloud,
                region=region,
                zone=zone,
                instance_type=asked[0].get("instance_type") or "",
                spot=bool(asked[0].get("use_spot")),
                status="INIT",
                ever_up=False,
                launching=True,
                provider_id="",
                labels=asked[0].get("labels") or {},
            )
        )
    return found[:1]


def _down(name: str) -> messages.Reply:
    log = io.StringIO()
    try:
        for _ in range(2):
            try:
                sky.stream_and_get(sky.down(name), output_stream=log)
                break
            except exceptions.ClusterDoesNotExist:
                # A launch that waits for its turn would make one later; what it has begun meanwhile is ended too.
                if (launch := _under_way().get(name)) is None:
                    break
                sky.get(sky.api_cancel(launch, silent=True))
    except Exception as error:
        return _failed(error, log.getvalue())
    return messages.Ended()


def _tail(name: str, *logs: Callable[..., Any], lines: int = _LOG_LINES) -> str:
    log = io.StringIO()
    for read in logs:
        with suppress(Exception):  # there is none yet, or the node is out of reach
            read(name, follow=False, tail=lines, output_stream=log)
    return _COLOUR.sub("", log.getvalue())


def _under_way() -> dict[str, Any]:
    """Cluster → request that launches it. SkyPilot's server knows, whoever made the request and died since."""
    active = sky.api_status(fields=list(_REQUEST))
    return {request.cluster_name: request.request_id for request in active if request.name.endswith("launch")}


def _failed(error: Exception, log: str, known: tuple[str, ...] = (), cause: str = "") -> messages.CallFailed:
    history = getattr(error, "failover_history", None) or ()
    texts = [str(error), *(f"{type(one).__name__}: {one}" for one in history)]
    text = _COLOUR.sub("", "\n".join(texts))
    return messages.CallFailed(type(error).__name__, text, _COLOUR.sub("", log)[-_LOG_CHARS:], known, cause)


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Hold the name alone, among all processes. Names share locks, of which there are `_LOCKS`."""
    lock = Path(os.environ["SKY_RUNTIME_DIR"]) / "turns" / str(zlib.crc32(name.encode()) % _LOCKS)
    lock.parent.mkdir(exist_ok=True, mode=0o700)
    with turn(lock):
        yield


def _check_credentials(clouds: Sequence[str]) -> dict[str, str]:
    """Cloud → empty, or the reason, as SkyPilot tells it."""
    log = io.StringIO()
    enabled = sdk.stream_and_get(sdk.check(tuple(clouds), verbose=False), output_stream=log)
    usable = {
        cloud.lower()
        for workspace in enabled.values()
        for cloud, abilities in workspace.items()
        if any(str(getattr(ability, "value", ability)) == "compute" for ability in abilities)
    }
    said = _COLOUR.sub("", log.getvalue())
    return {cloud: "" if cloud in usable else _reason(said, cloud) for cloud in clouds}


def _reason(said: str, cloud: str) -> str:
    """Read the lines under the cloud's name up to the next cloud."""
    lines = iter(said.splitlines())
    found: list[str] = []
    for text in lines:
        if re.match(rf"\s*{cloud}: disabled", text, re.IGNORECASE):
            break
    for text in lines:
        if re.match(r"\s*\w[\w ]*: (disabled|enabled)", text) or not text.strip():
            break
        found.append(text.strip())
    return " ".join(found)[:_REASONS_CHARS] or "SkyPilot finds no credentials that work for it; see `sky check`"
