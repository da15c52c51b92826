"""What a fleet would cost: a plan that the control plane makes and nobody is held to."""

from dataclasses import dataclass
from typing import Any

from medley_terraform.client import Client, Json
from medley_terraform.failure import INTERRUPTED, Failure

_LOOK_S, _LONGEST_LOOK_S = 0.1, 2.0
_OPEN = ("queued", "running")
_USD_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """The plan that would be made."""

    plan: Json
    """The document that `GET /plans/{plan}` gives."""

    @property
    def usd_per_hour(self) -> float:
        return round(float(self.plan["usd_per_hour"]), _USD_DECIMALS)

    @property
    def nodes(self) -> int:
        return int(self.plan["summary"]["nodes"])

    @property
    def unmet(self) -> dict[str, float]:
        """Requests per second by demand; empty: all is served."""
        return {key: float(rate) for key, rate in self.plan["summary"]["unmet"].items()}

    @property
    def summary(self) -> str:
        rates = ", ".join(f"{rate:.5g} requests/s of {key}" for key, rate in self.unmet.items())
        missing = f", and leaves {rates} unserved" if rates else ""
        return f"{self.usd_per_hour:.2f} $/h on {self.nodes} node{'' if self.nodes == 1 else 's'}{missing}"


def begin(client: Client, body: Json, *, anew: bool) -> str:
    """The id of an operation that plans. Raises Failure for what is refused at once."""
    return str(client.ask("/plans", body, anew=anew)["id"])


def outcome(client: Client, operation: str, timeout_s: float) -> Expected:
    """Raises Failure when it cannot be planned, needs more than its budget, or takes longer than `timeout_s`."""
    path, waited_s, pause_s = f"/operations/{operation}", 0.0, _LOOK_S
    try:
        while (found := client.get(path))["state"] in _OPEN:
            if waited_s >= timeout_s:
                detail = f"the dry run is not done after {timeout_s:g} s ({found['progress'] or found['state']})"
                raise Failure("took-too-long", f"{detail}: is a worker of `medley api` running? See plan_timeout_s.")
            client.pause(pause_s)
            waited_s, pause_s = waited_s + pause_s, min(pause_s * 1.5, _LONGEST_LOOK_S)
    except Failure as failure:
        if failure.name in ("took-too-long", INTERRUPTED):
            client.check(f"{path}:cancel", {})
        raise
    if found["state"] != "succeeded":
        raise _failure(found)
    return Expected(client.get(f"/plans/{found['result']['plan_id']}"))


def _failure(operation: Json) -> Failure:
    problem: dict[str, Any] = operation["problem"] or {}
    if not problem:
        return Failure("cancelled", "somebody cancelled the dry run: plan again")
    return Failure(problem["name"], problem["detail"], facts=problem.get("facts", {}))
