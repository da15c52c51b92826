"""Renders a chart with Helm's own code: `python render_chart.py CHART [--lint]`, a list of values as JSON on stdin.

Runs in the environment of `make iac-env`. Prints a list as JSON, for each of the values: `rendered`, the text of each
template, and `lint`, what Helm finds if it is asked, which takes ten times as long; or `error`, when the chart's schema
or a template refuses them.
"""

import json
import sys
from typing import Any

from helm_python import Chart, HelmError, lint


def answer(path: str, chart: Chart, values: dict[str, Any], *, linted: bool) -> dict[str, Any]:
    try:
        chart.validate_schema(values)
        rendered = chart.render(values, name="medley", namespace="medley")
    except HelmError as error:
        return {"error": str(error)}
    found = lint(path, values, strict=True)["messages"] if linted else []
    return {"lint": [one["error"] for one in found if one["severity"] > 1], "rendered": rendered}


folder, *more = sys.argv[1:]
loaded = Chart.load(folder)
json.dump([answer(folder, loaded, values, linted="--lint" in more) for values in json.load(sys.stdin)], sys.stdout)
