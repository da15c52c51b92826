"""Accept a price that was quarantined."""

from control.actions.context import ActionContext
from control.db.errors import NotStoredError
from control.db.live_offers import PostgresOffers
from templates_lib.values.offer import Offer

_SHOWN = 12


def accept_price(act: ActionContext, key: str) -> Offer:
    """Accept the price of an offer: plans use it from now on. Raises NotStoredError, with the offers whose price is
    in quarantine."""
    with act.as_one() as one:
        stored = PostgresOffers(one.database)
        found = stored.accept(key, act.now)
        if found is None:
            aside = sorted(each.offer.key for market in stored.markets().values() for each in market.quarantined)
            raise NotStoredError(f"{key} is not in quarantine; in it are: {', '.join(aside[:_SHOWN]) or 'none'}")
        one.record("offer.accepted", f"accepted {found.usd_per_hour:g} $/h for {found.key}", found.key)
        return found
