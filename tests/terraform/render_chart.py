"""Lints and renders a chart with Helm's own code: `python render_chart.py CHART`, a list of values as JSON on stdin.

Runs in the environment of `make iac-env`. Prints a list as JSON, for each of the values: `lint`, what Helm finds, and
`rendered`, the text of each template; or `error`, when the chart's schema or a template refuses them.
"""

import json
import sys
from typing import Any

from helm_python import Chart, HelmError, lint


def answer(path: str, values: dict[str, Any]) -> dict[str, Any]:
    chart = Chart.load(path)
    try:
        chart.validate_schema(values)
        rendered = chart.render(values, name="medley", namespace="medley")
    except HelmError as error:
        return {"error": str(error)}
    found = lint(path, values, strict=True)
    return {"lint": [one["error"] for one in found["messages"] if one["severity"] > 1], "rendered": rendered}


json.dump([answer(sys.argv[1], values) for values in json.load(sys.stdin)], sys.stdout)
