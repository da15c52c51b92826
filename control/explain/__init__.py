"""Reasons of a plan: what binds, what one more node would save, what the runner-up costs, what is missing.

Pure: it reads values and re-solves with the solver it is handed.
"""

from control.explain.explanation import Explanation, explain, explain_at_once
from control.explain.reasons import reasons

__all__ = ["Explanation", "explain", "explain_at_once", "reasons"]
