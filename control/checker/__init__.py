"""Recomputes what a plan claims from the snapshot it was made on, without any code of the planner.

It shares with the rest of Medley only the values of `templates_lib`, so that one mistake cannot hide in both.
"""

from control.checker.check import check
from control.checker.claims import Claim, claims_of
from control.checker.files import CheckInputError, read_checkpoints, read_files
from control.checker.violation import Violation

__all__ = ["CheckInputError", "Claim", "Violation", "check", "claims_of", "read_checkpoints", "read_files"]
