"""All that a launch needs, in the order in which it would fail."""

from collections.abc import Iterator

from control.preflight.finding import Finding
from control.preflight.models import of_models
from control.preflight.planned import Planned
from control.preflight.site import Site, of_site


def preflight(planned: Planned, site: Site) -> Iterator[Finding]:
    """Yield what is found, as it is found: clouds and hubs are asked on the way. Nothing is rented or changed."""
    yield from of_site(planned, site)
    yield from of_models(planned)
