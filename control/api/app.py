"""The app: routes, what stands before them, and what they share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

import anyio.to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import Lifespan

from control.api.bounds import Bounds
from control.api.console import BUNDLE, Console
from control.api.failures import tell_failures
from control.api.guarded_route import PREFIX
from control.api.load_sampler import LoadSampler
from control.api.metrics import ApiMetrics
from control.api.offer_book import OfferBook
from control.api.openapi import describe
from control.api.request_log import RequestLog
from control.api.routes import ROUTERS
from control.api.services import Services
from control.api.settings import ApiSettings
from control.api.slo_sampler import SloSampler
from control.api.streams import streams
from control.api.work.pool import WorkPool
from control.cost.metrics import CostCollector
from control.db.browser_sessions import PostgresSessions
from control.db.database import Database
from control.db.idempotent_answers import PostgresAnswers
from control.db.ledger import PostgresLedger

_SWEEP_S = 600.0


def create_app(
    database: Database, settings: ApiSettings, clock: Callable[[], datetime], pool: WorkPool, home: Path
) -> FastAPI:
    """Make the API. `clock` is timezone-aware; the workers of `pool` do what takes long; `home` is where Medley keeps
    files here."""
    metrics = ApiMetrics(CostCollector(PostgresLedger(database), clock))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        services: Services = app.state.services
        sampler = SloSampler(database, settings.gateways, clock)
        works = [pool.run(), _sweep(services), sampler.run()]
        if settings.samples_load:
            works.append(LoadSampler(database, clock).run())
        tasks = [asyncio.create_task(each) for each in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await services.streams.close()

    app = routed(lifespan)
    followed, offers = streams(database, settings), OfferBook(database)
    app.state.services = Services(database, settings, clock, metrics, followed, offers, home, pool.wake)
    app.router.default = Console(BUNDLE)
    app.add_middleware(Bounds, settings=settings)
    app.add_middleware(RequestLog, metrics=metrics)
    tell_failures(app)
    return app


def routed(lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """The routes, and the document that describes them: without `create_app` they have nothing to work on."""
    app = FastAPI(
        title="Medley admin API",
        version="v1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    describe(app)
    return app


def _operation_id(route: APIRoute) -> str:
    """The function's name: what a generated client calls it."""
    return route.name


async def _sweep(services: Services) -> None:
    """Drop what has outlived its use. Any number of processes may."""
    while True:
        now = services.clock()
        with suppress(Exception):
            await anyio.to_thread.run_sync(PostgresSessions(services.database).drop_expired, now)
            await anyio.to_thread.run_sync(
                PostgresAnswers(services.database).drop_older, now - services.settings.idempotency
            )
        await asyncio.sleep(_SWEEP_S)
