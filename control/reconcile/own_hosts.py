"""Own machines of all fleets on record: what runs on them has to be seen before anything is decided."""

from collections.abc import Collection, Iterable

from control.cloud.ssh.own_host import OwnHost
from control.fleet_file.own_model import OwnModel
from control.lifecycle.fleet import FleetRecord
from control.reconcile.fleet_world import world_of_record
from templates_lib.values.clouds import OWNED


def hosts_on_record(records: Iterable[FleetRecord], own: Collection[OwnModel]) -> tuple[OwnHost, ...]:
    """By name; of two fleets that name a host the first one's word counts. `own`: registered models.

    Raises the ValueError of a spec that cannot be read any more though it names hosts: without them, what runs there
    would count as lost.
    """
    hosts: dict[str, OwnHost] = {}
    for record in records:
        if OWNED not in record.spec:
            continue
        for host in world_of_record(record, own).fleet.hosts:
            hosts.setdefault(host.name, host)
    return tuple(hosts.values())
