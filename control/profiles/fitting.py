"""The fit of what nodes have measured."""

from control.profiles.measurement_jobs import SweepError
from templates_lib.cost.fit import UnfittableError, fit_step_terms
from templates_lib.values.node_profile import ProfileErrors
from templates_lib.values.profile_row import ProfileRow


def fit_rows(name: str, rows: tuple[ProfileRow, ...]) -> tuple[dict[str, float], ProfileErrors]:
    """Fit what node `name` measured (`fit_step_terms`). Raises SweepError where it cannot be fitted."""
    try:
        return fit_step_terms(rows)
    except UnfittableError as error:
        raise SweepError(f"{name}: {error}; run `medley profile run` again") from None
