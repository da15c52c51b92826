"""Greeting of `medley up` once its fleet answers: when instances are ready and the gateway has found them."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Collection

from control.access.secret import Secret
from control.up.steps import Steps

_POLL_S = 0.1
_LONGEST = 64
"""Tokens of the first answer: small models tell on and on, and small nodes take half a second for each."""
_TIMEOUT_S = 5.0


class Greeting:
    """Prints the greeting once. Create it on a running loop."""

    def __init__(self, steps: Steps, url: str, key: Secret, models: Collection[str], instances: int) -> None:
        """`url`: of the gateway; `instances`: how many have to be ready."""
        self._steps = steps
        self._url = url
        self._key = key
        self._models = set(models)
        self._instances = instances
        self._ready: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def ready(self, instance: str) -> None:
        self._ready.add(instance)
        if len(self._ready) >= self._instances and self._task is None:
            self._task = asyncio.create_task(self._greet())

    def gone(self, instance: str) -> None:
        self._ready.discard(instance)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _greet(self) -> None:
        while not await asyncio.to_thread(self._is_served):
            await asyncio.sleep(_POLL_S)
        url, key, model = self._url, self._key.reveal(), min(self._models)
        question = '"messages": [{"role": "user", "content": "What is the capital of France?"}]'
        body = f'{{"model": "{model}", {question}, "max_tokens": {_LONGEST}}}'
        say = self._steps.say
        say(f"\nready after {self._steps.elapsed_s:.0f} s: {url}/v1 (OpenAI-compatible), key {key}\n")
        say(f"curl {url}/v1/chat/completions \\\n  -H 'Authorization: Bearer {key}' \\")
        say(f"  -H 'Content-Type: application/json' \\\n  -d '{body}'\n")
        say("Ctrl-C ends it, and leaves nothing behind. In another terminal: medley status, medley instances")
        say("For the console: medley token create you --role operator")

    def _is_served(self) -> bool:
        """Tell whether the gateway reports every model as ready."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own
                return self._models <= set(json.load(answer)["ready"])
        except (urllib.error.URLError, OSError, ValueError):
            return False
