"""Serving of `medley up` once everything is there: its loop leads, and events are printed."""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Collection, Sequence

from control.access.secret import Secret
from control.demand.heard_load import HeardLoad
from control.fleet.graph_routing import served_types
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.reconcile.fleet_planner import Solved
from control.reconcile.reconciler import Reconciler
from control.up.first_requests import KEY, first_requests
from control.up.gateway_process import GatewayProcess
from control.up.site import Site, keep_up
from control.up.steps import Steps
from templates_lib.apps.graph_app import app_of

_POLL_S = 0.1
_TIMEOUT_S = 5.0


class Greeting:
    """Prints the greeting once. Create it on a running loop."""

    def __init__(
        self,
        steps: Steps,
        url: str,
        key: Secret,
        models: Collection[str],
        instances: int,
        nodes: int,
        asks: Sequence[str],
    ) -> None:
        """`url`: of the gateway; `instances`: how many have to be ready; `nodes`: those of all of them; `asks`: first
        requests, as `control.up.first_requests` has them."""
        self._steps = steps
        self._url = url
        self._key = key
        self._models = set(models)
        self._instances, self._nodes, self._asks = instances, nodes, tuple(asks)
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
        url, key, say = self._url, self._key.reveal(), self._steps.say
        say(f"\nready after {self._steps.elapsed_s:.0f} s: {url}/v1 (OpenAI-compatible), key {key}\n")
        for ask in self._asks:
            say(f"curl -N {url}/v1{ask.replace(KEY, key)}\n")
        nodes = "one node serves it" if self._nodes == 1 else f"{self._nodes} nodes serve it, each"
        say(f"It is slow on purpose: {nodes} with a hard share of this machine's processors.")
        say("Ctrl-C ends it, and leaves nothing behind. In another terminal: medley status, medley instances")
        say("For the console: medley token create you --role operator")

    def _is_served(self) -> bool:
        """Tell whether the gateway reports every model as ready."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own
                return self._models <= set(json.load(answer)["ready"])
        except (urllib.error.URLError, OSError, ValueError):
            return False


class AlreadyUpError(ValueError):
    """Another control plane runs in this home, or leads in this database."""


class Leading:
    """The loop of a site that must be the only leader. Each reason why a fleet cannot run is printed once."""

    def __init__(self, reconciler: Reconciler, steps: Steps) -> None:
        self._reconciler = reconciler
        self._steps = steps
        self._said: set[str] = set()

    @property
    def heard(self) -> HeardLoad:
        return self._reconciler.heard

    def load(self) -> None:
        if not self._reconciler.load():
            raise AlreadyUpError("another control plane leads in this database: end it, or choose another database")

    def tick(self) -> None:
        self._reconciler.tick()
        for fleet, trouble in self._reconciler.trouble().items():
            text = f"trouble    fleet {fleet} {trouble}"
            if text not in self._said:
                self._said.add(text)
                self._steps.say(text)

    def wake(self, fleet: str, why: str) -> None:
        self._reconciler.wake(fleet, why)


class Serving:
    """Prints events while it serves."""

    def __init__(self, steps: Steps, gateway: GatewayProcess, key: Secret, solved: Solved) -> None:
        self._steps = steps
        self._gateway = gateway
        text = sorted(served.name for served in solved.world.recipe.served)
        apps = {app.name: served_types(app_of(app)) for app in solved.world.fleet.graph_apps}
        parts = [model for types in apps.values() for model in types.values()]
        planned = solved.plan.instances
        missing = sum(each.count for each in planned)
        nodes = sum(each.count * sum(each.nodes.values()) for each in planned)
        asks = first_requests(text, apps)
        self._greeting = Greeting(steps, gateway.url, key, [*text, *parts], missing, nodes, asks)

    def on_transition(self, step: PastTransition) -> None:
        """Print a step of an instance's life. May be called from any thread."""
        self._steps.say(f"{step.instance_id:<14} {step.from_state} -> {step.to_state}: {step.reason}")
        noted = self._greeting.ready if step.to_state is InstanceState.READY else self._greeting.gone
        self._loop.call_soon_threadsafe(noted, step.instance_id)

    async def serve(self, site: Site) -> dict[str, str]:
        self._loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(name, stop.set)
        try:
            left = await keep_up(site, self._gateway, self._found, stop)
        finally:
            self._greeting.close()
        for node, why in left.items():
            self._steps.say(f"left       {node}: {why}")
        self._steps.say("down       see above for what may still run" if left else "down       nothing runs any more")
        return left

    def _found(self, instances: set[str]) -> None:
        """Count the ready instances of an earlier run."""
        for instance in instances:
            self._greeting.ready(instance)
