"""Routing tables of the release before: it reads what this one writes, and the other way round. To be deleted with the
next release.

That one knows two ways to serve: `whole` on one instance, or `prefill` on one and `decode` on another, with tokens per
second of each. Both stand beside the routes of a model that has them; of other models an old gateway sees no instance.
"""

from typing import Any

from agents.messages.to_scheduler import LEGS

_LEGS = {("invocation",): ("whole",), ("prompt_token", "output_token"): ("prefill", "decode")}
"""Units of the legs of a route → what they were called."""
_PHASES = {leg.value: phase.value for phase, leg in LEGS.items()}


def with_former_keys(table: dict[str, Any]) -> dict[str, Any]:
    """`table`: as plain values."""
    return table | {"models": [_former_model(model) for model in table["models"]]}


def with_routes(table: Any) -> Any:
    """A table of either release as one of this. What is no table is left to whoever reads it as one."""
    try:
        return table | {"models": [_model(model) for model in table["models"]]}
    except (AttributeError, KeyError, TypeError, ZeroDivisionError):
        return table


def _former_model(model: dict[str, Any]) -> dict[str, Any]:
    routing = model["routing"]
    legs: dict[str, str] = {}
    flows = []
    for route in routing["routes"]:
        names = _LEGS.get(tuple(leg["unit"] for leg in route["legs"]))
        if names is not None and not set(names) & set(legs.values()):
            legs |= {leg["work_class"]: name for leg, name in zip(route["legs"], names, strict=True)}
            flows += route["flows"]
    means = {"prompt_tokens_per_s": model["mean_prompt_tokens"], "output_tokens_per_s": model["mean_output_tokens"]}
    instances = []
    for member in routing["members"]:
        served = legs.keys() & member["units_per_s"].keys()
        for work_class in served if len(served) == 1 else ():
            leg, rate = legs[work_class], member["units_per_s"][work_class]
            tokens = {
                "whole": {key: rate * mean for key, mean in means.items()},
                "prefill": {"prompt_tokens_per_s": rate},
                "decode": {"output_tokens_per_s": rate},
            }[leg]
            instances.append({"id": member["id"], "zone": member["zone"], "leg": leg, **tokens})
    return model | {"routing": routing | {"instances": instances, "flows": flows}}


def _model(model: dict[str, Any]) -> dict[str, Any]:
    routing = model["routing"]
    if "routes" in routing or "instances" not in routing:
        return model
    name, output = routing["id"], model.get("mean_output_tokens", 256.0)
    # Prompts' mean length is not in it; with that of answers, the scarcer of two rates decides, as it did.
    mean = {"whole": 1.0, "prefill": output, "decode": output}
    routes = []
    for units, legs in _LEGS.items():
        flows = [flow for flow in routing.get("flows", ()) if len(flow["zones"]) == len(legs)]
        edges = [{"source": 0, "target": 1, "bytes_per_request": 0.0}] if len(legs) == 2 else []
        of = [
            {"work_class": f"{name}/{_PHASES[leg]}", "unit": unit, "units_per_request": mean[leg]}
            for leg, unit in zip(legs, units, strict=True)
        ]
        routes.append({"id": f"{name}/{len(legs)}", "legs": of, "edges": edges, "flows": flows})
    members = []
    for instance in routing["instances"]:
        leg = instance["leg"]
        rate = instance["prompt_tokens_per_s" if leg == "prefill" else "output_tokens_per_s"]
        units_per_s = {f"{name}/{_PHASES[leg]}": rate / output if leg == "whole" else rate}
        members.append({"id": instance["id"], "zone": instance["zone"], "units_per_s": units_per_s})
    return model | {"routing": {"id": name, "routes": routes, "members": members}}
