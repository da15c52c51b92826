"""What GCP has where: machines in zones."""

from collections.abc import Mapping, Sequence

from control.offers.live.gcp import machine_shapes
from control.offers.live.gcp_access import asked, gcp_access
from control.offers.live.source import NoAnswerError
from templates_lib.values.hardware import load_instance_types
from templates_lib.values.offer import Offer


def gcp_sold(offers: Sequence[Offer], environment: Mapping[str, str]) -> frozenset[str]:
    """Return the keys of those offers whose machine is sold in their zone, or somewhere in their region where they name
    no zone. Raises SourceError; needed is compute.machineTypes.list."""
    access = gcp_access(environment)
    names = {offer.instance_type for offer in offers}
    machines = {each.name: each for each in load_instance_types() if each.cloud == "gcp" and each.name in names}
    if not machines:
        return frozenset()
    shapes, unreachable = asked(lambda: machine_shapes(access, machines), "machine types")
    if away := sorted({offer.zone for offer in offers} & set(unreachable)):
        raise NoAnswerError(f"machine types: GCP does not answer for {', '.join(away)} now")
    places = {(name, place) for name, zone in shapes for place in (zone, zone.rpartition("-")[0])}
    return frozenset(offer.key for offer in offers if (offer.instance_type, offer.zone) in places)
