"""The last word of a worker that could not load: its scheduler tells why the instance fails, and does not wait."""

import asyncio
import logging

from agents.channels.dialer import Address, Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.to_stage import ToStage
from agents.messages.to_stage_scheduler import StageFailed

_log = logging.getLogger(__name__)


class _Gone:
    """Ignores what it hears: the worker is on its way out."""

    def up(self) -> None: ...

    def received(self, message: ToStage) -> None: ...

    def down(self, reason: str) -> None: ...


async def give_notice(scheduler: Address, keys: KeyPair, reason: str, settings: ChannelSettings) -> None:
    """Tell the scheduler of a failure, as far as it can be reached within `lost_after_s`."""
    dialer: Dialer[ToStage] = Dialer(scheduler, keys, "stage", ToStage, _Gone(), settings)
    try:
        await dialer.wait_up(settings.lost_after_s)
        dialer.send(StageFailed(reason[:1000]))
        await asyncio.sleep(settings.linger_s)
    except ChannelError as error:
        _log.warning("the scheduler cannot be told: %s", error)
    finally:
        dialer.close()
