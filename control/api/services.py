"""Services that every request may use, made once a process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from control.api.metrics import ApiMetrics
from control.api.offer_book import OfferBook
from control.api.settings import ApiSettings
from control.api.streams import Streams
from control.db.database import Database


@dataclass(frozen=True, slots=True, eq=False)
class Services:
    database: Database
    settings: ApiSettings
    clock: Callable[[], datetime]
    """Timezone-aware."""
    metrics: ApiMetrics
    streams: Streams
    offers: OfferBook
    home: Path
    """Folder of what Medley stores on this machine."""
    work_waits: Callable[[], None]
    """Call it after an operation was stored, so that a worker looks for it."""
