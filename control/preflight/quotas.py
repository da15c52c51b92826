"""Quotas of accounts: whether they let a plan run all of its nodes at once."""

from collections.abc import Iterator, Mapping

from control.offers.cloud_reader import CloudReader
from control.offers.live.source import SourceError
from control.offers.quota import Quota
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from templates_lib.values.hardware import UnknownHardwareError, instance_type
from templates_lib.values.offer import Offer

NAME = "account.quota"


def of_quotas(planned: Planned, cloud: str, reader: CloudReader | None) -> Iterator[Finding]:
    """Yield a finding for each quota of `cloud` that nodes of the plan count against. `reader` None: it has none that
    could be read."""
    nodes = planned.plan.nodes()
    offers = [each for each in planned.offers(cloud) if _is_known(each)]
    if not offers:
        return
    if reader is None:
        yield Finding(NAME, cloud, Status.UNKNOWN, "its limits cannot be read from here: they show at a launch")
        return
    try:
        answer = reader.quotas(offers)
    except SourceError as error:
        yield Finding(NAME, cloud, Status.UNKNOWN, f"quotas cannot be read: {error}")
        return
    for quota in answer.quotas:
        yield _finding(quota, nodes)
    if answer.notes:
        yield Finding(NAME, cloud, Status.UNKNOWN, "; ".join(answer.notes))
    listed = {key for quota in answer.quotas for key in quota.pool.members}
    if without := sorted({each.instance_type for each in offers if each.key not in listed}):
        what = f"it lists no quota that {', '.join(without)} would count against"
        yield Finding(NAME, f"{cloud} {', '.join(without)}", Status.UNKNOWN, what)


def _is_known(offer: Offer) -> bool:
    try:
        instance_type(offer.cloud, offer.instance_type)
    except UnknownHardwareError:
        return False
    return True


def _finding(quota: Quota, nodes: Mapping[str, int]) -> Finding:
    """Nodes of the plan that run already count as used, too, and cannot be told from others here."""
    pool = quota.pool
    asked, limit = pool.taken(nodes), pool.limit
    detail = f"the plan takes {asked:g} {pool.unit} of {limit:g} ({pool.source})"
    more = f"; ask for more at {quota.ask_at}, or plan elsewhere"
    if asked > limit:
        return Finding(NAME, pool.id, Status.FAIL, detail + more)
    if quota.used is None:
        return Finding(NAME, pool.id, Status.PASS, f"{detail}; how many are in use cannot be read")
    detail += f", of which {quota.used:g} are in use"
    if asked + quota.used > limit:
        what = f"{detail}, by nodes of this plan that run already or by others: by others it is too little{more}"
        return Finding(NAME, pool.id, Status.UNKNOWN, what)
    return Finding(NAME, pool.id, Status.PASS, detail)
