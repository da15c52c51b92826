"""Own machines as a market: hosts of a zone and kind are an offer, of which there are as many as hosts."""

from collections import Counter
from pathlib import Path

from control.cloud.ssh.own_host import OwnHost
from control.fleet_file.cloud_section import HostSection
from control.fleet_file.document import Document
from control.fleet_file.problem import SpecError
from control.fleet_file.schema import FleetFile
from control.offers.quotes import Quotes
from templates_lib.values.clouds import OWNED
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer


def own_hosts(file: FleetFile, document: Document) -> tuple[OwnHost, ...]:
    """Paths in `document` begin where it is. Raises SpecError with every host that cannot be one."""
    hosts, problems = [], []
    for place, section in enumerate(file.clouds):
        for number, host in enumerate(section.hosts or ()):
            try:
                hosts.append(_host(host, Path(document.file).parent))
            except ValueError as error:
                problems.append(document.problem(("clouds", place, "hosts", number), str(error)))
    if problems:
        raise SpecError(problems)
    return tuple(hosts)


def own_quotes(file: FleetFile) -> Quotes:
    sections = [host for section in file.clouds for host in section.hosts or ()]
    counts = Counter((host.zone, host.node_config, host.usd_per_hour) for host in sections)
    return Quotes(
        offers=tuple(
            Offer(
                cloud=OWNED,
                region=zone,
                zone=zone,
                instance_type=_instance_type(config),
                node_config=config,
                market=Market.OWNED,
                usd_per_hour=usd_per_hour,
                available_count=count,
                source="machines of one's own",
            )
            for (zone, config, usd_per_hour), count in counts.items()
        ),
        configs={config: node_config_from_id(config) for _, config, _ in counts},
        already_checked=True,
    )


def _host(host: HostSection, folder: Path) -> OwnHost:
    return OwnHost(
        name=host.name,
        address=host.address,
        user=host.user,
        host_key=host.host_key,
        instance_type=_instance_type(host.node_config),
        zone=host.zone,
        port=host.port,
        key_file=None if host.key_file is None else (folder / Path(host.key_file).expanduser()).absolute(),
        python=host.python,
    )


def _instance_type(config: str) -> str:
    """An offer's key has slashes of its own."""
    return config.replace("/", "-").replace(":", "x")
