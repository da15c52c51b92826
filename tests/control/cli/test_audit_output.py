"""`medley audit`: what was done, with its figures."""

import json

from typer.testing import CliRunner

from control.cli.main import app


def test_figures_follow_the_text_and_are_whole_as_json(database_url: str) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--database-url", database_url])
        assert done.exit_code == 0
        return done.output

    run("projects", "create", "search")
    run("budgets", "set", "--project", "search", "--usd-per-month", "1234567.125", "--floor", "0.5")
    run("budgets", "remove", "--project", "search")
    text = run("audit", "--subject", "search")
    assert "set the budget of project search (usd_per_month 1,234,567.125, floor_usd_per_hour 0.5)" in text
    assert text.rstrip().endswith("removed the budget of project search")
    told = json.loads(run("audit", "--kind", "budget.changed", "-o", "json"))
    assert [event["detail"] for event in told] == [{"usd_per_month": 1234567.125, "floor_usd_per_hour": 0.5}]
