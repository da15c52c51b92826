"""`models` of a fleet."""

from medley_terraform.fleet.fields import (
    ABOVE_0,
    NOT_NEGATIVE,
    NOT_NEGATIVE_COUNT,
    flag,
    mapped,
    number,
    section,
    text,
)
from medley_terraform.schema import Limits

SLO = section(
    "slo",
    "What was promised of latency.",
    number("ttft_ms", "Milliseconds to the first token.", ABOVE_0, required=True),
    number("tpot_ms", "Milliseconds for each token after it.", ABOVE_0, required=True),
    number(
        "ttft_ms_per_1k_prompt_tokens", "More time to the first token for longer prompts. Default: 0.", NOT_NEGATIVE
    ),
    number(
        "percentile",
        "Of prompts, for which the objective must hold. Default: 99.",
        Limits(above=0, below=100),
    ),
    number(
        "max_prompt_tokens",
        "Longer prompts are served apart, with instances of their own. Default: 0, none are.",
        NOT_NEGATIVE_COUNT,
    ),
    flag("queueing", "Certify that share of all requests, waiting included, not that length alone. Default: `false`."),
    required=True,
)
FORECAST = section(
    "forecast",
    "Of metered demand: how it is carried on.",
    text("policy", "`last`, `ewma` or `seasonal`. Default: `ewma`.", Limits(one_of=("last", "ewma", "seasonal"))),
    number("half_life_minutes", "Of the mean of recent rates. Default: 15.", ABOVE_0),
    text("period", "Of `seasonal`: `day` or `week`. Default: `day`.", Limits(one_of=("day", "week"))),
    number(
        "quantile",
        "Head-room that would have been enough in this share of the window. Default: 0.9.",
        Limits(least=0.5, below=1),
    ),
    flag("head_room", "`false`: none, and no `quantile`. Default: `true`."),
    number("window_hours", "Default: 24.", ABOVE_0),
)
HOLD = section(
    "hold",
    "Of metered demand: requests that wait at each gateway while nothing serves the model.",
    number("max_requests", "Default: 100.", NOT_NEGATIVE_COUNT),
    number("timeout_s", "Default: 600.", Limits(above=0, most=3600)),
)
DEMAND = section(
    "demand",
    "One of `requests_per_s`, `trace` and `metered = true`.",
    number("requests_per_s", "A fixed rate.", ABOVE_0),
    text("trace", "A rate series that Medley ships."),
    text("at", "Of `trace`: its `mean`, or its `peak` window. Default: `mean`.", Limits(one_of=("mean", "peak"))),
    number("scale", "Of `trace`: a factor. Default: 1.", ABOVE_0),
    flag("metered", "What gateways are offered, and a forecast of it."),
    FORECAST,
    number("floor_requests_per_s", "Of metered demand: planned for whatever the forecast says.", NOT_NEGATIVE),
    number("ceiling_requests_per_s", "Of metered demand: never more than this.", ABOVE_0),
    number("idle_minutes", "Of metered demand: after as long without a request nothing runs. Default: 30.", ABOVE_0),
    HOLD,
    number("priority", "Higher is served first when not all can be. Default: 0.", Limits(whole=True)),
    required=True,
)
MODELS = mapped(
    "models",
    "What is served, by the name that clients call it.",
    text("model", "A model of the catalogue, or `medley_model.NAME.id`.", required=True),
    SLO,
    text("workload", "A shape of prompt and output lengths that Medley ships.", required=True),
    DEMAND,
    flag("disaggregated", "Prefill and decode on instances of their own. Default: `true`."),
    flag("aggregated", "Both on one instance; with `disaggregated` the planner chooses. Default: `false`."),
    text(
        "engine",
        "`torch`, or `vllm`, which rented nodes do not run yet. Default: `torch`.",
        Limits(one_of=("torch", "vllm")),
    ),
    text(
        "weights",
        "`hf:ORG/NAME@REVISION`, or `package:NAME` where nodes find them. Default: where the model says.",
        Limits(pattern=r"(hf|package):.{1,248}"),
    ),
    required=True,
)
