"""The adapter of own machines."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Lock

from control.cloud.errors import CloudError, GiveUpError, RetryLaterError, StockOutError
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from control.cloud.ssh.own_host import OwnHost
from control.cloud.ssh.session import RETRY_S, HostNode, HostReply, ask
from templates_lib.values.clouds import OWNED
from templates_lib.values.nearest_name import nearest_name

PASSED_OVER_AFTER = timedelta(minutes=10)
"""A host that does not answer for so long counts as lost: what ran there is replaced elsewhere, and ended as an orphan
should the host come back. Until then nobody can say what runs, and calls are to be made again."""
_AT_ONCE = 16
"""SSH clients side by side."""


class OwnMachines:
    """One node a host. Any number of adapters, in any process, may share the hosts. Thread-safe."""

    name = OWNED

    def __init__(self, hosts: Iterable[OwnHost]) -> None:
        self._hosts: dict[str, OwnHost] = {}
        self._silent_since: dict[str, datetime] = {}
        self._turn = Lock()
        self.offer(hosts)

    def offer(self, hosts: Iterable[OwnHost]) -> None:
        """Add hosts from now on. A host of a known name replaces it, such as one with a new key; ValueError where it is
        another machine: what runs on the known one would be forgotten."""
        with self._turn:
            known = dict(self._hosts)
            for host in hosts:
                there = known.setdefault(host.name, host)
                if (there.address, there.port, there.user) != (host.address, host.port, host.user):
                    raise ValueError(
                        f"host {host.name!r} is {there.address} already: {host.address} needs another name"
                    )
                known[host.name] = host
            self._hosts = dict(sorted(known.items()))

    def learn(self, hosts: Iterable[OwnHost]) -> None:
        """Add those hosts that are not known; of the others, what is known counts. Raises as `offer` does."""
        known = self._hosts
        self.offer(hosts)
        self.offer(known.values())

    def like(self, instance_type: str, zone: str) -> tuple[OwnHost, ...]:
        """Return the hosts on which a node of that type in that zone may be."""
        return tuple(h for h in self._hosts.values() if (h.instance_type, h.zone) == (instance_type, zone))

    def unheard(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return those of these hosts, by name, that did not answer last: `list` does not say what is on them."""
        with self._turn:
            return tuple(sorted(set(hosts) & self._silent_since.keys()))

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        there = self._survey(now)
        node = self._only(request, there)
        if node is None:
            claimed = self._claim(request, there)
            node = self._only(request, self._survey(now)) or claimed
        return node

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        found = [_node(host, node) for host, node in self._survey(now).items() if node is not None]
        return tuple(sorted((n for n in found if tags.items() <= n.tags.items()), key=lambda n: n.name))

    def terminate(self, name: str, now: datetime) -> None:
        for host, node in self._survey(now).items():
            if node is not None and node.name == name:
                self._end(self._hosts[host], name)

    def printed(self, name: str, lines: int) -> str:
        """See `PrintReader`: of the end of a log, as much as a host sends at once."""

        def look(host: OwnHost) -> str:
            try:
                return ask(host, {"do": "printed", "name": name}).printed
            except RetryLaterError:  # out of reach: it may be another host's node
                return ""

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = max(pool.map(look, self._hosts.values()), key=len, default="")
        return "\n".join(found.splitlines()[-lines:])

    def _survey(self, now: datetime) -> dict[str, HostNode | None]:
        """Ask each host what runs on it; return those that answer, by the host's name.

        Raises the error of one that does not, until it has been silent for `PASSED_OVER_AFTER`."""

        def look(host: OwnHost) -> HostReply | CloudError:
            try:
                return ask(host, {"do": "list"})
            except CloudError as error:
                return error

        hosts = self._hosts  # whole: `offer` puts another one in its place
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = dict(zip(hosts, pool.map(look, hosts.values()), strict=True))
        found: dict[str, HostNode | None] = {}
        first: CloudError | None = None
        with self._turn:
            for host, answer in answers.items():
                if isinstance(answer, HostReply):
                    self._silent_since.pop(host, None)
                    found[host] = answer.node
                elif now - self._silent_since.setdefault(host, now) < PASSED_OVER_AFTER:
                    first = first or answer
        if first is not None:
            raise first
        return found

    def _claim(self, request: NodeRequest, there: Mapping[str, HostNode | None]) -> CloudNode:
        """Take the first free host and start the node. All control planes try hosts in the same order."""
        like = self.like(request.instance_type, request.zone)
        if not like:
            types = {host.instance_type for host in self._hosts.values()}
            hint = nearest_name(request.instance_type, types)
            raise GiveUpError(f"owned: no host is a {request.instance_type!r} in {request.zone}; {hint}")
        for host in like:
            if host.name not in there or there[host.name] is not None:
                continue
            answer = ask(host, _order(request, host))
            if answer.refused:
                raise GiveUpError(f"host {host.name}: {answer.refused} there")
            # Somebody else may have taken it meanwhile: each host has one node, and says which.
            if answer.node is not None and answer.node.name == request.name:
                return _same(request, host.name, answer.node)
        raise StockOutError(f"owned: every {request.instance_type} in {request.zone} is in use")

    def _only(self, request: NodeRequest, there: Mapping[str, HostNode | None]) -> CloudNode | None:
        """The node of that name, if there is one. Two who created it at once may have taken a host each: the first
        host's node stays, and whoever sees both ends the other."""
        holders = [(host, node) for host, node in there.items() if node is not None and node.name == request.name]
        for host, _ in holders[1:]:
            self._end(self._hosts[host], request.name)
        return _same(request, *holders[0]) if holders else None

    @staticmethod
    def _end(host: OwnHost, name: str) -> None:
        if not ask(host, {"do": "terminate", "name": name}).gone:
            raise RetryLaterError(
                f"host {host.name}: processes of {name} do not die; perhaps they wait for a disk", RETRY_S
            )


def host_of(node: CloudNode) -> str:
    """Return the name of the host that an own machine's node is on."""
    return node.provider_id.partition("/")[0]


def _order(request: NodeRequest, host: OwnHost) -> dict[str, object]:
    """Secrets go over the encrypted channel to the node's environment; no record, argument or log has them."""
    command = list(request.command)
    if host.python and command and command[0].rpartition("/")[2].startswith("python"):
        command[0] = host.python
    record = {
        "name": request.name,
        "instance_type": request.instance_type,
        "zone": request.zone,
        "market": request.market,
        "tags": dict(request.tags),
    }
    secrets = {name: secret.reveal() for name, secret in request.secrets.items()}
    return {"do": "create", "record": record, "command": command, "environment": {**request.environment, **secrets}}


def _same(request: NodeRequest, host: str, node: HostNode) -> CloudNode:
    if (node.instance_type, node.zone, node.market) != (request.instance_type, request.zone, request.market):
        raise GiveUpError(f"owned: {node.name} exists and is a {node.instance_type} in {node.zone}")
    if node.state == CloudNodeState.TERMINATING:
        raise RetryLaterError(f"owned: {node.name} is being terminated on {host}", RETRY_S)
    return _node(host, node)


def _node(host: str, node: HostNode) -> CloudNode:
    leader = node.leader or {}
    return CloudNode(
        node.name, f"{host}/{leader.get('pid', '')}-{leader.get('ticks', '')}", CloudNodeState(node.state), node.tags
    )
