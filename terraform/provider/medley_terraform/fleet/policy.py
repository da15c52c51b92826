"""`policy`, `reconcile` and `solver` of a fleet."""

from medley_terraform.fleet.fields import (
    ABOVE_0,
    COUNT,
    NOT_NEGATIVE,
    NOT_NEGATIVE_COUNT,
    SHARE,
    flag,
    mapped,
    number,
    section,
    text,
)
from medley_terraform.schema import Limits

REPLICAS = mapped(
    "replicas",
    "By `MODEL/PHASE`, such as `chat/decode`.",
    number("min", "Instances at least. Default: 0.", NOT_NEGATIVE_COUNT),
    number("max", "Instances at most.", NOT_NEGATIVE_COUNT),
)
POLICY = section(
    "policy",
    "What a plan may look like.",
    text("mode", "`zones` or `paper`. Default: `zones`.", Limits(one_of=("zones", "paper"))),
    number(
        "utilisation_cap",
        "Share of an instance's capacity that a plan may use. Default: 0.85.",
        Limits(above=0, most=1),
    ),
    number(
        "max_usd_per_hour",
        "For rent and traffic; a fleet that needs more fails at plan, with the numbers.",
        NOT_NEGATIVE,
    ),
    number("max_spot_share", "Of each kind of work, on spot at most. Default: 1.", SHARE),
    number("max_zone_share", "Of each kind of work, in one zone at most. Default: 1.", SHARE),
    number("max_unproven_nodes", "To ask of an offer whose stock is unknown. Default: 4.", NOT_NEGATIVE_COUNT),
    REPLICAS,
    text(
        "survive",
        "`nothing`, `instance` or `zone`: whose loss the fleet is to bear. Default: `nothing`.",
        Limits(one_of=("nothing", "instance", "zone")),
    ),
    number("survive_share", "Of the demand, that stays covered. Default: 1.", SHARE),
    number("startup_minutes", "Until a node serves. Default: 6.", NOT_NEGATIVE),
    number("adjustment_interval_minutes", "Over which a start pays. Default: 60.", ABOVE_0),
    number("restart_hours", "That an interruption of a spot node costs. Default: 0.1.", NOT_NEGATIVE),
)
DISRUPTION = section(
    "disruption",
    "How many ready instances may be moved without need.",
    number("max_instances", "Within the window.", NOT_NEGATIVE_COUNT),
    number("max_share", "Of those that run, within the window.", SHARE),
    number("window_minutes", "Default: 60.", ABOVE_0),
)
RECONCILE = section(
    "reconcile",
    "How the fleet is kept on its plan.",
    number("replan_minutes", "Default: 5.", ABOVE_0),
    number("max_new_nodes_per_hour", "Of the whole fleet, replacements included.", NOT_NEGATIVE_COUNT),
    DISRUPTION,
    number(
        "payback_minutes", "In which a move that only saves money has to pay back what it costs. Default: 15.", ABOVE_0
    ),
    flag("all_moves", "`true`: all moves of the cheapest plan are made, and no `payback_minutes`. Default: `false`."),
    number("payback_share", "Of the instances, moved within an hour only to save money. Default: any.", SHARE),
)
SOLVER = section(
    "solver",
    "How hard to look.",
    number("n_max", "Nodes of a template at most. Default: 6.", Limits(least=1, most=8, whole=True)),
    number("rho", "GPU memory of a template at most, in multiples of the model's weights. Default: 12.", ABOVE_0),
    text("slo_split", "`even` or `uneven`. Default: `even`.", Limits(one_of=("even", "uneven"))),
    number("seed", "Default: 0.", NOT_NEGATIVE_COUNT),
    number("gap", "Stop when the cost is proven to be this close to the least. Default: 0.001.", SHARE),
    number("incumbent_columns", "Default: 2000.", COUNT),
    number("proof_columns", "Default: 12000.", COUNT),
    number("nodes", "Default: 20000.", COUNT),
    number("simplex_iterations", "Default: 200000.", COUNT),
    number("wall_clock_s", "With it, the plan may differ from run to run.", ABOVE_0),
)
