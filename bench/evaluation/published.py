"""What the Coral paper reports (arXiv:2605.04357v1, sections 6.3-6.7), to be printed beside our figures."""

COST_TIMES = {
    ("core", "balanced"): {"homo": "1.62", "cauchy": "1.60"},
    ("extended", "balanced"): {"homo": "3.14", "cauchy": "2.66"},
    ("core", "large-heavy"): {"homo": "1.82", "cauchy": "1.78"},
    ("extended", "large-heavy"): {"homo": "2.79", "cauchy": "3.47"},
    ("core", "small-heavy"): {"homo": "1.1", "cauchy": "1.1"},
    ("extended", "small-heavy"): {"homo": "2.34", "cauchy": "1.64"},
    ("core", "scarce"): {"homo": "1.0", "cauchy": "1.51"},
    ("extended", "scarce"): {"homo": "0.66", "cauchy": "1.25"},
}
"""A baseline's average hourly cost over Coral's."""
GOODPUT_TIMES = {
    "core": {"homo": "1.24", "cauchy": "1.0"},
    "extended": {"homo": "7.64", "cauchy": "2.39"},
}
"""Coral's goodput over a baseline's when GPUs are scarce (section 6.4)."""
SCARCE_DEARER = {"core": "10 %", "extended": "25 %"}
"""Coral's own cost when GPUs are scarce, over its cost when they are not."""
DEAREST = {"core": "qwen3-32b", "extended": "qwen3-235b-a22b"}
DEAREST_TIMES = {"core": {"homo": "2.02", "cauchy": "1.88"}, "extended": {"homo": "4.93", "cauchy": "4.08"}}
"""The same as COST_TIMES for the provisioning of the dearest model alone."""
SOLVE_S = {
    ("core", "balanced"): "0.24",
    ("extended", "balanced"): "9.68",
    ("core", "scarce"): "0.11",
    ("extended", "scarce"): "41",
}
HELIX_CHEAPER, HELIX_FASTER = "21 %", "26 %"
PLATEAU = (6, 12)
"""(N_max, rho) beyond which the best template is no more efficient (section 6.7)."""
FIG_1A_TOKENS_PER_S_PER_USD = {"mixed": 526, "H100": (481, 460, 476)}
