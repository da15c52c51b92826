"""Tasks over models that Medley serves, in plain Python.

A unit task (`encoder`, `decoder`, `generator`) is called with handles and returns one at once. A composite task is an
async function over them (`workflow`), which returns handles, or awaits one and returns what it makes of its text.
"""

from medley_sdk.choice import replayable_choice
from medley_sdk.errors import NonDeterminismError, TaskError
from medley_sdk.handle import Handle
from medley_sdk.request import Request
from medley_sdk.unit import UnitFunction, decoder, encoder, generator
from medley_sdk.workflow import Workflow, workflow

__all__ = [
    "Handle",
    "NonDeterminismError",
    "Request",
    "TaskError",
    "UnitFunction",
    "Workflow",
    "decoder",
    "encoder",
    "generator",
    "replayable_choice",
    "workflow",
]
