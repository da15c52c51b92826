"""A chat with a served model, which says who answered and at what cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any, Literal

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from starlette.types import Receive, Scope, Send

from control.access.role import Role
from control.api.documented import needs, problems
from control.api.gateway_chat import ChatRoute, open_chat
from control.api.guarded_route import ServicesOf, api_router
from control.api.problem import ApiError
from control.api.routes.events import STREAM
from control.api.services import Services
from control.api.slo_sampler import each_gateway
from control.api.text import Readable
from control.db.database import Database
from control.db.instance_pages import instance_page
from control.fleet.answer_cost import answer_usd
from control.fleet.instance_view import InstanceView
from control.fleet.live_instances import views

router = api_router("playground")
_MOST_CHATS = 20
_chats = asyncio.Semaphore(_MOST_CHATS)
"""Chats of one process at a time: each holds two connections."""
Text = Annotated[str, Field(max_length=200_000), Readable]


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: Text


class Chat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=300)
    messages: list[ChatMessage] = Field(min_length=1, max_length=500)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    key: SecretStr = Field(
        default=SecretStr(""),
        max_length=500,
        description="Token of role client that the gateway is asked with, which counts its use. It is sent on and kept "
        "nowhere. Empty: the gateway asks for none.",
    )


class AnsweringInstance(BaseModel):
    id: str
    zone: str = Field(description="Empty: it is gone already.")
    leg: str
    usd_per_hour: float


class AnswerRoute(BaseModel):
    """Last event of a chat, `event: route`."""

    attempts: list[list[AnsweringInstance]] = Field(description="Each try at it; the last one answered.")
    prompt_tokens: int
    output_tokens: int
    usd: float = Field(description="What it took of its instances, if all that they are planned to sustain is used.")


class ChatResponse(StreamingResponse):
    """Events of a chat. What it holds is closed at its end, also where it ends before the first event: a generator that
    never began does not clean up."""

    def __init__(self, events: AsyncIterator[bytes], held: AsyncExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


@router.post(
    "/playground:chat",
    responses=problems(409, body=True) | STREAM,
    response_class=StreamingResponse,
    openapi_extra=needs(Role.VIEWER),
)
async def chat(body: Chat, services: ServicesOf) -> StreamingResponse:
    """Ask a model through the first gateway that this API knows (`--gateway`): OpenAI's events of a chat, then
    `event: route` with an `AnswerRoute`."""
    if _chats.locked():
        raise ApiError(503, "unavailable", f"{_MOST_CHATS} chats are open here already", headers={"Retry-After": "5"})
    async with AsyncExitStack() as stack:
        await _chats.acquire()  # at once: nothing else has run since it was looked at
        stack.callback(_chats.release)
        events = await _opened(stack, body, services)
        return ChatResponse(events, stack.pop_all())


async def _opened(stack: AsyncExitStack, body: Chat, services: Services) -> AsyncIterator[bytes]:
    found = [each for url in services.settings.gateways for each in await each_gateway(url)]
    asked: dict[str, Any] = body.model_dump(exclude={"key"}, exclude_none=True)
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    database = services.database
    return await open_chat(stack, found, body.key.get_secret_value(), asked, lambda route: _route(database, route))


def _route(database: Database, route: ChatRoute) -> dict[str, Any]:
    ids = sorted({each for attempt in route.served_by for each in attempt})
    known = {view.id: view for view in views(database, instance_page(database, len(ids), ids=ids))} if ids else {}
    attempts = [[_answering(each, known.get(each)) for each in attempt] for attempt in route.served_by]
    last = [known[each] for each in (route.served_by[-1] if route.served_by else ()) if each in known]
    usd = answer_usd(last, route.prompt_tokens, route.output_tokens)
    made = AnswerRoute(attempts=attempts, prompt_tokens=route.prompt_tokens, output_tokens=route.output_tokens, usd=usd)
    return made.model_dump()


def _answering(name: str, view: InstanceView | None) -> AnsweringInstance:
    if view is None:
        return AnsweringInstance(id=name, zone="", leg="", usd_per_hour=0.0)
    return AnsweringInstance(id=name, zone=view.zone, leg=view.leg, usd_per_hour=view.usd_per_hour)
