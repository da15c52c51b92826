"""Budgets of stages, cut from a latency objective."""


def even_budgets(slo_ms: float, max_stages: int) -> tuple[float, ...]:
    """SLO / S for S = 1 .. `max_stages`, in that order (Coral, section 4.2): index S - 1 is for S stages."""
    return tuple(slo_ms / stages for stages in range(1, max_stages + 1))


def uneven_budgets(slo_ms: float, ticks: int) -> tuple[float, ...]:
    """q / Q · SLO for q = 1 .. Q = `ticks`: stages whose ticks add up to Q keep the objective."""
    return tuple(slo_ms * tick / ticks for tick in range(1, ticks + 1))
