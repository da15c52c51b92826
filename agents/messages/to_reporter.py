"""What a gateway receives from the demand desk."""

from msgspec import Struct

from agents.messages.bounds import Count
from agents.messages.to_demand_desk import UnixSeconds


class OfferedStored(Struct, frozen=True, array_like=True, tag="offered_stored"):
    """That revision is safe: it need not be sent again."""

    started_s: UnixSeconds
    revision: Count


ToReporter = OfferedStored
