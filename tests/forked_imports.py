"""Imports what most processes of tests import, and loads the simulation: for processes to be forked from (`forked`)."""

from importlib import import_module

from control.simulator.serving.kernel.__main__ import main

_MODULES = (
    *(f"control.cli.{name}" for name in ("main", "planning", "plan_document", "plan_table", "template_table")),
    "templates_lib.placement_solver.search",
    "control.gateway.app",
    "control.gateway.slack_decision",
    "agents.echo.scheduler",
    "agents.scheduler.core",
    "agents.stage.worker",
    "agents.engines.loading",
    "agents.engines.torch_engine.engine",
)

for _name in _MODULES:
    import_module(_name)
main()
