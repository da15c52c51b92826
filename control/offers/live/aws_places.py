"""What AWS has where: machines in zones, an image in a region."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from control.offers.live.aws_access import AwsClients, asked
from control.offers.live.aws_region import offered_zones, zones_of
from templates_lib.values.offer import Offer


def aws_sold(offers: Sequence[Offer]) -> frozenset[str]:
    """Return the keys of those offers whose machine is sold in their zone, or somewhere in their region where they name
    no zone. Raises SourceError; needed are ec2:DescribeInstanceTypeOfferings and ec2:DescribeAvailabilityZones."""
    clients = AwsClients.of_environment()
    found: set[str] = set()
    for region in sorted({offer.region for offer in offers}):
        mine = [offer for offer in offers if offer.region == region]
        ec2 = clients.get("ec2", region)
        names = sorted({offer.instance_type for offer in mine})
        sold = asked(partial(offered_zones, ec2, names), f"offerings of {region}")
        ids = asked(partial(zones_of, ec2), f"zones of {region}")
        for offer in mine:
            zones = sold.get(offer.instance_type, set())
            if ids.get(offer.zone, offer.zone) in zones or (offer.zone == region and zones):
                found.add(offer.key)
    return frozenset(found)


def aws_image_gib(image: str, region: str) -> int | None:
    """Return the GiB of the root disk of an AMI; None where the region has no such image that this account may use, or
    it is no AMI. Raises SourceError; needed is ec2:DescribeImages."""
    ec2 = AwsClients.of_environment().get("ec2", region)
    return asked(partial(_root_gib, ec2, image), f"image {image} in {region}")


def _root_gib(ec2: Any, image: str) -> int | None:
    # Asked for by a filter: an id that there is not is an error elsewhere, and nothing here.
    found = ec2.describe_images(Filters=[{"Name": "image-id", "Values": [image]}])["Images"]
    if not found:
        return None
    disks = [each["Ebs"] for each in found[0].get("BlockDeviceMappings", ()) if "Ebs" in each]
    return max((int(each.get("VolumeSize", 0)) for each in disks), default=0)
