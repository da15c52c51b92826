"""Imports what `medley` imports for most of its commands, and loads the simulation: for processes to be forked from."""

from importlib import import_module

from control.simulator.serving.kernel.__main__ import main

_COMMANDS = ("main", "planning", "plan_document", "plan_table", "template_table", "explanation_text")

for _name in _COMMANDS:
    import_module(f"control.cli.{_name}")
import_module("templates_lib.placement_solver.search")
main()
