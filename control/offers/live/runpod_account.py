"""What RunPod lets an account run, and what it sells: read before a launch."""

from collections.abc import Mapping, Sequence

from control.offers.live.runpod import CLOUD, runpod_gpu_types, runpod_sizes
from control.offers.live.runpod_access import ask_runpod
from control.offers.quota import Quota, QuotaAnswer
from templates_lib.values.offer import Offer
from templates_lib.values.supply import SupplyPool

_QUERY = "query { myself { clientBalance currentSpendPerHr spendLimit } }"
_PAGE = "https://console.runpod.io/user/billing"


def runpod_quotas(offers: Sequence[Offer], environment: Mapping[str, str]) -> QuotaAnswer:
    """Read the account's spend limit, above which RunPod starts no pod, and its balance, at the end of which it stops
    all of them: it has to pay for an hour. Raises SourceError."""
    balance, spends, limit = ask_runpod(
        environment,
        _QUERY,
        lambda data: tuple(
            float(data["myself"][name]) for name in ("clientBalance", "currentSpendPerHr", "spendLimit")
        ),
    )
    members = {offer.key: offer.usd_per_hour for offer in offers}
    spending = SupplyPool(f"{CLOUD}/spend limit", limit, "$/h", members, "spendLimit of the account")
    paid = SupplyPool(f"{CLOUD}/balance", balance, "$ an hour", members, "clientBalance of the account")
    return QuotaAnswer((Quota(spending, spends, _PAGE), Quota(paid, spends, _PAGE)))


def runpod_sold(offers: Sequence[Offer], environment: Mapping[str, str]) -> frozenset[str]:
    """Return the keys of those offers whose machine RunPod lists with a price, in stock now or not. Raises
    SourceError."""
    listed = {
        machine.name
        for kind in runpod_gpu_types(environment)
        for machine, size in runpod_sizes(kind)
        if kind.get("securePrice") or size.get("uninterruptablePrice") or size.get("minimumBidPrice")
    }
    return frozenset(offer.key for offer in offers if offer.instance_type in listed)
