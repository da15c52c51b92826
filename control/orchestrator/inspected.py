"""What an app says of itself: its code is loaded once, as a run would."""

from control.orchestrator.code_process import RUNNER, CodeProcess
from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.orchestrator.settings import OrchestratorSettings
from control.tasks.task_source import TaskSource
from medley_sdk.flows.messages import AppLoaded, FromRunner, LoadApp


def inspected(source: TaskSource, *, needs_isolation: bool) -> AppLoaded:
    """Raises ValueError, with the line, for code that raises, takes too long, or has types that do not travel.
    `needs_isolation`: also where the system cannot keep the network from it."""
    settings = OrchestratorSettings()
    process = CodeProcess(RUNNER, FromRunner)
    try:
        ask = LoadApp(source.file, source.text, settings.limits)
        return process.load(ask, settings.load_s, needs_isolation=needs_isolation)
    except (RunBrokeError, RunnerLostError) as error:
        raise ValueError(str(error)) from None
    finally:
        process.end()
