"""Tasks and workflows over models that Medley serves, in plain Python.

A workflow is an async function. One of a `Request` is a composite task over unit tasks (`encoder`, `decoder`,
`generator`) of an any-to-any model. Any other calls models (`model`) and services of its own (`service`), and is run as
often as it is asked for. Calls give handles at once; handles are arguments of other calls; to await one fetches it.
"""

from medley_sdk.choice import replayable_choice
from medley_sdk.errors import BudgetError, CallError, NonDeterminismError, TaskError, UncertainCallError
from medley_sdk.flows.calls import CallName, Model, Reply, emit, gather, model, signal, sleep
from medley_sdk.flows.service import Service, service
from medley_sdk.handle import Handle
from medley_sdk.request import Request
from medley_sdk.unit import UnitFunction, decoder, encoder, generator
from medley_sdk.workflow import Workflow, workflow

path = replayable_choice
"""`path(*options)` in workflows: one of them, the same whenever the run is executed again."""

__all__ = [
    "BudgetError",
    "CallError",
    "CallName",
    "Handle",
    "Model",
    "NonDeterminismError",
    "Reply",
    "Request",
    "Service",
    "TaskError",
    "UncertainCallError",
    "UnitFunction",
    "Workflow",
    "decoder",
    "emit",
    "encoder",
    "gather",
    "generator",
    "model",
    "path",
    "replayable_choice",
    "service",
    "signal",
    "sleep",
    "workflow",
]
