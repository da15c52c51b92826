"""How the execution of a run ends other than with an answer."""


class RunnerLostError(Exception):
    """The process of the code is gone: start another one."""


class RunBrokeError(Exception):
    """The code does not do what it has to, such as to return in time: the run has failed."""
