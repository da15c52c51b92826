"""What a cloud has where a plan wants it: machines in their zones, an image in each region."""

from collections.abc import Iterator

from control.offers.cloud_reader import CloudReader
from control.offers.live.source import SourceError
from control.planning.disks import node_gib
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned


def of_machines(planned: Planned, cloud: str, reader: CloudReader | None) -> Iterator[Finding]:
    """Yield what is found of the machines that the plan takes of a cloud that can be asked."""
    if reader is None or reader.sold is None:
        return
    offers = planned.offers(cloud)
    if not offers:
        return
    name = "machine.zone"
    try:
        sold = reader.sold(offers)
    except SourceError as error:
        yield Finding(name, cloud, Status.UNKNOWN, f"it does not say where its machines are sold: {error}")
        return
    missing = [offer for offer in offers if offer.key not in sold]
    for offer in missing:
        what = f"{cloud} does not sell it there: plan other zones, or refresh prices (`medley offers refresh`)"
        yield Finding(name, f"{offer.instance_type} in {offer.zone}", Status.FAIL, what)
    if not missing:
        machines = ", ".join(sorted({offer.instance_type for offer in offers}))
        yield Finding(name, cloud, Status.PASS, f"{machines}: sold in the zones that are planned")


def of_image(planned: Planned, cloud: str, image: str, reader: CloudReader | None) -> Iterator[Finding]:
    """Yield what is found of an image that was chosen for the nodes of a cloud."""
    regions, name = planned.regions(cloud), "image.region"
    is_ami = image.startswith("ami-")
    if is_ami and len(regions) > 1:
        what = f"{image} is of one region, and nodes are planned in {', '.join(regions)}: plan one region, or no image"
        yield Finding(name, cloud, Status.FAIL, what)
        return
    if not is_ami or reader is None or reader.image_gib is None:
        what = f"{image}: whether the account may use it shows at the first launch"
        yield Finding(name, cloud, Status.UNKNOWN, what)
        return
    held = [served for served, clouds in planned.served() if cloud in clouds]
    disk = min((node_gib((each,), (engine,)) for each in held for engine in planned.engines(each, cloud)), default=0)
    for region in regions:
        try:
            size = reader.image_gib(image, region)
        except SourceError as error:
            yield Finding(name, f"{cloud} {region}", Status.UNKNOWN, f"{image} cannot be looked for: {error}")
            continue
        if size is None:
            what = f"{region} has no {image} that this account may use: name one of that region, or copy it there"
            yield Finding(name, f"{cloud} {region}", Status.FAIL, what)
        elif size > disk:
            what = f"{image} needs a disk of {size} GiB, and nodes are launched with {disk}: make it smaller"
            yield Finding(name, f"{cloud} {region}", Status.FAIL, what)
        else:
            yield Finding(name, f"{cloud} {region}", Status.PASS, f"{image} is there, with a disk of {size} GiB")
