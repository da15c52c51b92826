"""`python -m tests.agents.stage.patient_scheduler ...`: a scheduler that gives up no worker for its silence: a test
may stop one for as long as it takes. All else is that of `python -m agents.scheduler`."""

import runpy
from functools import partial

from agents.channels.settings import ChannelSettings
from agents.scheduler import server, settings


def _main() -> None:
    patient = partial(settings.SchedulerSettings, channel=ChannelSettings(lost_after_s=3600.0))
    assert server  # which is to know the settings by their own name
    settings.SchedulerSettings = patient  # type: ignore[assignment, misc]
    runpy.run_module("agents.scheduler", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
