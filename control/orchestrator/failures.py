"""How the execution of a run ends other than with an answer."""


class RunnerLostError(Exception):
    """The process of the code is gone: start another one."""

    def __init__(self, reason: str, *, was_killed: bool = False) -> None:
        """`was_killed`: by a signal that comes from outside, as a rule."""
        super().__init__(reason)
        self.was_killed = was_killed


class RunBrokeError(Exception):
    """The code does not do what it has to, such as to return in time: the run has failed."""
