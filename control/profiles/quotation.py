"""What a measurement of rented nodes may cost, before anything is rented: values in, values out."""

from collections.abc import Iterable
from dataclasses import dataclass

from control.offers.quotes import Quotes
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Market, Offer

END_MINUTES = 5.0
"""What the end of a node may take behind the minutes that it may measure: it is billed until its cloud has ended it."""


class QuotationError(ValueError):
    """Nothing is rented: it is not sold, or would cost more than it may. The message says what would do."""


@dataclass(frozen=True, slots=True)
class Limits:
    usd: float
    """Most $ that all nodes may cost."""
    minutes: float
    """Most minutes from the first request to a cloud until nodes are given back."""


@dataclass(frozen=True, slots=True)
class Wanted:
    cloud: str
    config: str
    """`L40S:1`, or with its network class `L40S:1/n10`."""
    market: Market
    zone: str = ""
    """Empty: any."""
    nodes: int = 1
    disk_usd_per_hour: float = 0.0
    """Of one node, beside its offer."""


@dataclass(frozen=True, slots=True)
class Quotation:
    config: NodeConfig
    offers: tuple[Offer, ...]
    """The cheapest first; where one is refused the next is asked for."""
    wanted: Wanted
    limits: Limits

    @property
    def most_usd(self) -> float:
        """Return the most that it costs at the dearest of the offers."""
        return max(self.usd_at(offer) for offer in self.offers)

    def usd_per_hour(self, offer: Offer) -> float:
        """Return the $/h of one node."""
        return offer.usd_per_hour + self.wanted.disk_usd_per_hour

    def usd_at(self, offer: Offer) -> float:
        hours = (self.limits.minutes + END_MINUTES) / 60
        return self.wanted.nodes * self.usd_per_hour(offer) * hours


def quote(quotes: Quotes, wanted: Wanted, limits: Limits) -> Quotation:
    """Find the offers that do and that the limits allow. Raises QuotationError."""
    of_cloud = [each for each in quotes.offers if each.cloud == wanted.cloud and not each.derived]
    named = [each for each in of_cloud if _names(wanted.config, each.node_config)]
    if not named:
        known = sorted({each.node_config.partition("/")[0] for each in of_cloud})
        hint = nearest_name(wanted.config, known)
        raise QuotationError(f"--config {wanted.config}: {wanted.cloud} sells no such configuration; {hint}")
    sold = sorted(_to_be_had(named, wanted), key=lambda each: (each.usd_per_hour, each.key))
    if not sold:
        places = ", ".join(sorted({f"{each.zone} {each.market.value}" for each in named}))
        raise QuotationError(
            f"no {wanted.config} is to be had {wanted.market.value} in {wanted.zone or wanted.cloud}: it is known in "
            f"{places}, there in use, refused lately or left out (`medley offers list` says which); --zone and --spot "
            "choose another"
        )
    config = quotes.configs[sold[0].node_config]
    quotation = Quotation(config, tuple(each for each in sold if each.node_config == config.id), wanted, limits)
    within = tuple(each for each in quotation.offers if quotation.usd_at(each) <= limits.usd)
    if not within:
        cheapest = sold[0]
        minutes = 60 * limits.usd / (wanted.nodes * quotation.usd_per_hour(cheapest)) - END_MINUTES
        instead = f" or --max-minutes {minutes:.0f}" if minutes >= 1 else ""
        raise QuotationError(
            f"{wanted.nodes} x {cheapest.instance_type} in {cheapest.zone_id} for {limits.minutes:g} minutes, and "
            f"{END_MINUTES:g} to end, may cost {quotation.usd_at(cheapest):.2f} $, and --max-usd is {limits.usd:g}: "
            f"give --max-usd {quotation.usd_at(cheapest) + 0.005:.2f}{instead}"
        )
    return Quotation(config, within, wanted, limits)


def _names(config: str, found: str) -> bool:
    return found == config or found.partition("/")[0] == config


def _to_be_had(offers: Iterable[Offer], wanted: Wanted) -> Iterable[Offer]:
    for each in offers:
        enough = each.available_count is None or each.available_count >= wanted.nodes
        if enough and each.market is wanted.market and wanted.zone in ("", each.zone, each.zone_id):
            yield each
