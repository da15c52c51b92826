"""What the gateway is held against: a plain FastAPI + httpx proxy, and the bare upstream that it stands before.

    python -m bench.gateway_baseline upstream
    python -m bench.gateway_baseline proxy --upstream http://127.0.0.1:PORT

The upstream answers as the echo engine does, with constants: nothing is tokenised, routed or accounted on this side.
Each prints {"url": …} once it listens.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

CHOICE = {"index": 0, "text": "token" * 16, "logprobs": None, "finish_reason": "length"}
ANSWER = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "echo", "choices": [CHOICE]}
EVENT = b"data: " + json.dumps({**ANSWER, "choices": [{**CHOICE, "text": "token"}]}).encode() + b"\n\n"
JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream")]


class Completion(BaseModel):
    model: str
    prompt: str
    max_tokens: int = 16
    stream: bool = False


def upstream(step_s: float) -> Any:
    """A raw ASGI application; `step_s`: pause between two streamed tokens."""
    answer = json.dumps(ANSWER).encode()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        body = b""
        has_more = True
        while has_more:
            message = await receive()
            body += message["body"]
            has_more = message.get("more_body", False)
        asked = json.loads(body)
        if not asked.get("stream"):
            length = (b"content-length", str(len(answer)).encode())
            await send({"type": "http.response.start", "status": 200, "headers": [*JSON, length]})
            await send({"type": "http.response.body", "body": answer})
            return
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        for _ in range(asked["max_tokens"]):
            await asyncio.sleep(step_s)
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    return app


def proxy(url: str) -> FastAPI:
    """As one writes it on the first day."""
    app = FastAPI()
    limits = httpx.Limits(max_connections=512, max_keepalive_connections=512)
    client = httpx.AsyncClient(base_url=url, limits=limits, timeout=60)

    @app.post("/v1/completions", response_model=None)
    async def complete(body: Completion) -> dict[str, Any] | StreamingResponse:
        if not body.stream:
            answer = await client.post("/v1/completions", json=body.model_dump())
            return dict(answer.json())

        async def relay() -> AsyncIterator[bytes]:
            async with client.stream("POST", "/v1/completions", json=body.model_dump()) as answer:
                async for part in answer.aiter_raw():
                    yield part

        return StreamingResponse(relay(), media_type="text/event-stream")

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["upstream", "proxy"])
    parser.add_argument("--upstream", default="")
    parser.add_argument("--step-s", type=float, default=0.005)
    given = parser.parse_args()
    app = upstream(given.step_s) if given.kind == "upstream" else proxy(given.upstream)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(app, http="httptools", loop="uvloop", lifespan="off", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
