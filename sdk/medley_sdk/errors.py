"""Errors that the author of a task sees."""


class TaskError(Exception):
    """The task cannot be served as it is written: the message says what to change."""


class NonDeterminismError(TaskError):
    """A run does not call what its record says."""
