"""What becomes of a task whose code does not do what it is asked."""

TASK_FAILED = "task_failed"


class TaskFailedError(ValueError):
    """The code raised, took too long, used too much, or called another thing than its record: the message says which,
    and where in its file."""

    code = TASK_FAILED


class ProcessEndedError(TaskFailedError):
    """The process of the code is gone, and has not said why."""
