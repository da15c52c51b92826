"""Cost of one answer by the instances that gave it."""

from collections.abc import Iterable

from control.fleet.instance_view import InstanceView
from templates_lib.values.work import Phase


def answer_usd(views: Iterable[InstanceView], prompt_tokens: int, output_tokens: int) -> float:
    """Return the dollars of what an answer took of each instance, if all that this is planned to sustain is used: where
    it stands half idle the truth is twice as much. In phases other than text's the answer is one unit."""
    units = {Phase.PREFILL.value: float(prompt_tokens), Phase.DECODE.value: float(output_tokens)}
    return sum(
        view.usd_per_hour / 3600 * units.get(name.rpartition("/")[2], 1.0) / units_per_s
        for view in views
        for name, units_per_s in view.work.items()
        if units_per_s > 0
    )
