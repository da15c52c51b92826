"""Offers: what can be rented where at what price, price history, and recent answers of clouds."""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from control.actions.accept_price import accept_price
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.market_cell import MarketCell, market_cells, success_share
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.api.periods import Since, period
from control.api.problem import ApiError, field_problem
from control.api.routes.operations import Operation, accepted
from control.api.text import QueryText
from control.api.work.requests import RefreshRequest
from control.db.live_offers import PostgresOffers
from control.db.operations import PostgresOperations
from control.market.sources import known_clouds
from policies.availability import Learned
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market
from templates_lib.values.offer import Offer as Sold

router = api_router("offers")
OfferKey = Annotated[str, Query(min_length=1, max_length=300, description="`cloud/zone/type/market`.")]


class Offer(BaseModel):
    key: str
    cloud: str
    region: str
    zone: str
    instance_type: str
    node_config: str
    gpu: str
    gpu_count: int
    market: Market
    usd_per_hour: float = Field(description="Price of the whole machine.")
    usd_per_gpu_hour: float
    available_count: int | None = Field(description="Nodes that can be rented; null: not known.")
    interruptions_per_hour: float
    observed_at: str
    source: str
    learned: Learned | None = Field(description="Learned from answers of its cloud; null: it was not asked for.")
    success_share: float | None = Field(description="Chance that the next node of it is given; null: as `learned`.")


class PricePoint(BaseModel):
    usd_per_hour: float | None = Field(description="null: no longer sold.")
    source: str
    observed_at: datetime = Field(description="Since when, by its source.")
    recorded_at: datetime


class PriceHistory(BaseModel):
    offer: str
    items: list[PricePoint]


class Quarantined(BaseModel):
    offer: str
    usd_per_hour: float
    reason: str


class CloudMarket(BaseModel):
    cloud: str
    source: str
    attempted_at: datetime
    succeeded_at: datetime | None = Field(description="null: never.")
    left_out: str = Field(description="Why its offers are not planned with; empty: they are.")
    failure: str = Field(description="Failure of the last attempt; empty: it succeeded.")
    offers: int
    quarantined: list[Quarantined]
    notes: list[str]


class AcceptedOffer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    offer: str = Field(min_length=1, max_length=300, description="Key of a quarantined offer.")


class CloudsToAsk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    clouds: list[str] = Field(default=[], max_length=50, description="Empty: all that can be asked.")


@router.get("/offers", responses=problems())
def list_offers(
    services: ServicesOf,
    limit: Limit = 100,
    cursor: Cursor = None,
    cloud: QueryText = None,
    region: QueryText = None,
    gpu: QueryText = None,
    market: Market | None = None,
) -> Page[Offer]:
    """List offers by key: live ones of clouds that were asked, else the dated ones that ship with Medley."""
    (last,) = after(cursor, str) or ("",)
    now = services.clock()
    listed = services.offers.read(now)

    def wanted(offer: Sold) -> bool:
        return (
            cloud in (None, offer.cloud)
            and region in (None, offer.region)
            and market in (None, offer.market)
            and gpu in (None, listed.configs[offer.node_config].gpu)
        )

    def shown(offer: Sold) -> Offer:
        config = listed.configs[offer.node_config]
        return Offer(
            key=offer.key, cloud=offer.cloud, region=offer.region, zone=offer.zone, instance_type=offer.instance_type,
            node_config=offer.node_config, gpu=config.gpu, gpu_count=config.gpu_count, market=offer.market,
            usd_per_hour=offer.usd_per_hour, usd_per_gpu_hour=offer.usd_per_hour / config.gpu_count,
            available_count=offer.available_count, interruptions_per_hour=offer.interruptions_per_hour,
            observed_at=offer.observed_at, source=offer.source, learned=listed.learned.get(offer.key),
            success_share=success_share(offer, listed, now),
        )  # fmt: skip

    rows = listed.after(str(last), wanted, limit + 1)
    return page(rows, limit, shown, lambda offer: (offer.key,))


@router.get("/offers/history", responses=problems())
def get_price_history(services: ServicesOf, offer: OfferKey, since: Since = None) -> PriceHistory:
    """Prices of one offer, oldest first, with the one that held at `since` (default: a week ago)."""
    span = period(since, None, services.clock(), timedelta(days=7))
    found = PostgresOffers(services.database).history(offer, span.since)
    items = [PricePoint(**{name: getattr(point, name) for name in PricePoint.model_fields}) for point in found]
    return PriceHistory(offer=offer, items=items)


@router.get("/markets", responses=problems())
def list_markets(services: ServicesOf) -> Items[CloudMarket]:
    """List clouds that were asked, the outcome, and prices that cannot be right."""
    same = ("cloud", "source", "attempted_at", "succeeded_at", "left_out", "failure", "notes")
    items = [
        CloudMarket(
            **{name: getattr(each, name) for name in same},
            offers=len(each.offers),
            quarantined=[
                Quarantined(offer=q.offer.key, usd_per_hour=q.offer.usd_per_hour, reason=q.reason)
                for q in each.quarantined
            ],
        )
        for each in PostgresOffers(services.database).markets().values()
    ]
    return Items(items=items)


@router.get("/markets/cells", responses=problems())
def list_market_cells(
    services: ServicesOf, market: Market | None = None, cloud: QueryText = None, gpu: QueryText = None
) -> Items[MarketCell]:
    """All offers in short: what each node configuration costs at least in each region, and whether it can be had."""
    now = services.clock()
    listed = services.offers.read(now)
    kept = (
        offer
        for offer in listed.offers
        if market in (None, offer.market)
        and cloud in (None, offer.cloud)
        and gpu in (None, listed.configs[offer.node_config].gpu)
    )
    return Items(items=market_cells(kept, listed, now))


@router.post("/offers:refresh", status_code=202, responses=problems(body=True))
def refresh_offers(body: CloudsToAsk, act: ActOf, response: Response, services: ServicesOf) -> Operation:
    """Ask clouds for what they sell now, with the credentials of the machine that does it."""
    unknown = [cloud for cloud in body.clouds if cloud not in known_clouds()]
    if unknown:
        message = f"unknown cloud {unknown[0]!r}; {nearest_name(unknown[0], known_clouds())}"
        raise ApiError(422, "invalid", message, errors=[field_problem(("clouds",), message)])
    content = msgspec.to_builtins(RefreshRequest(tuple(body.clouds)))
    operation = PostgresOperations(act.database).create("refresh-offers", content, "", act.actor, act.trace, act.now)
    services.work_waits()
    return accepted(response, operation)


@router.post("/offers:accept", status_code=204, responses=problems(404, body=True))
def accept_offer(body: AcceptedOffer, act: ActOf) -> None:
    """Accept a price that is quarantined: plans use it from now on."""
    accept_price(act, body.offer)
