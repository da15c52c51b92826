"""Errors that the author of a task or of a workflow sees."""


class TaskError(Exception):
    """The code cannot be served as it is written: the message says what to change."""


class NonDeterminismError(TaskError):
    """A run does not call what its record says."""


class CallError(Exception):
    """A call of a model or service failed; the message says of which, and why."""


class UncertainCallError(CallError):
    """A call with an external effect was started, and nobody knows what became of it: it is not started again."""


class BudgetError(CallError):
    """The call would have cost more than what is left of the run's `max_usd`; it was not started."""
