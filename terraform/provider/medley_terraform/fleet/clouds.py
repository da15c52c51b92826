"""`clouds`, `offers` and `quotas` of a fleet: what may be rented where."""

from medley_terraform.fleet.fields import (
    ABOVE_0,
    COUNT,
    MARKETS,
    NAME,
    NOT_NEGATIVE,
    flag,
    listed,
    number,
    section,
    several,
    text,
)
from medley_terraform.schema import Limits
from medley_terraform.types import Scalar

KINDS = listed(
    "kinds",
    "Of cloud `local`, whose nodes are processes of the machine that the control plane runs on. Default: three.",
    text("name", "A name of its own.", NAME, required=True),
    number("cpu_cores", "Share of the processors: 0.5 is half of one.", ABOVE_0, required=True),
    number("memory_mib", "For weights and KV cache.", COUNT, required=True),
    number("stock", "How many nodes of the kind there may be.", COUNT, required=True),
    number("usd_per_hour", "Nominal.", ABOVE_0, required=True),
)
HOSTS = listed(
    "hosts",
    "Of cloud `owned`: machines that you have, each one node, reached over SSH.",
    text("name", "Unique among all hosts of all fleets.", NAME, required=True),
    text("address", "Where it is.", required=True),
    number("port", "Default: 22.", Limits(least=1, most=65535, whole=True)),
    text("user", "As whom nodes run.", required=True),
    text("host_key", "Its public key, type and key; a host with another one is not spoken to.", required=True),
    text("node_config", "What it is, such as `H100:8/n200`.", required=True),
    text("zone", "Hosts of a zone reach each other. Default: `owned`.", NAME),
    number("usd_per_hour", "Stated, or sunk. Default: 0.", NOT_NEGATIVE),
    text("python", "Of the environment on it that has Medley's agent. Default: `python3`.", Limits(pattern=".{1,256}")),
)
CLOUDS = listed(
    "clouds",
    "What may be rented where.",
    text("cloud", "`aws`, `gcp`, `azure`, `runpod` or `lambda`; or `local` or `owned`.", required=True),
    several("regions", "Default: all."),
    several("gpus", "Default: all."),
    several("counts", "GPUs of a machine. Default: every size that is sold.", Scalar.NUMBER, COUNT),
    several("markets", "`on-demand`, `spot`. Default: `on-demand`.", limits=MARKETS),
    flag("derived", "Also sizes of `counts` that nobody sells, labelled so. Default: `false`."),
    KINDS,
    HOSTS,
    required=True,
)
OFFERS = section(
    "offers",
    "How offers are read.",
    flag("by_region", "A region is one zone and no traffic is priced, as in the Coral paper. Default: `false`."),
)
QUOTAS = listed(
    "quotas",
    "Limits of your accounts.",
    text("cloud", "Of which cloud.", required=True),
    text("region", "In which region.", required=True),
    text("family", "The cloud's own name of the quota, such as `G-VT` or `NVIDIA_L4_GPUS`.", required=True),
    number("limit", "vCPUs at AWS and Azure, GPUs elsewhere.", NOT_NEGATIVE, required=True),
    text("market", "Default: `on-demand`.", MARKETS),
)
