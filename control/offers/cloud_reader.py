"""What can be asked of a cloud about a launch before it: its account's quotas, its machines, an image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from control.offers.firewall import Firewall
from control.offers.quota import QuotaAnswer
from templates_lib.values.offer import Offer


@dataclass(frozen=True, slots=True)
class CloudReader:
    """Every function raises SourceError."""

    quotas: Callable[[Sequence[Offer]], QuotaAnswer]
    """Reads the quotas that nodes of offers, all of this cloud, count against."""
    sold: Callable[[Sequence[Offer]], frozenset[str]] | None = None
    """Returns the keys of those offers whose machine is sold where they say; None: the cloud is not asked."""
    image_gib: Callable[[str, str], int | None] | None = None
    """Returns the GiB of an image's root disk, by image and region, or None where there is no such image for this
    account; None: the cloud is not asked."""
    firewall: Callable[[str], Firewall | None] | None = None
    """Returns the firewall that nodes in a region have by SkyPilot's settings; None: SkyPilot makes one, which keeps
    all but its own machines out. Raises NoNetworkError, too. None instead of the function: the cloud is not asked."""
