"""Offers from a YAML file: machines of one's own, negotiated prices, prices of a cloud that Medley does not know.

apiVersion: medley/v1
kind: Offers
observed_at: 2026-11-01
offers:
  - cloud: onprem
    region: hall-a            # zone: the same unless given
    instance_type: dgx-h100
    node_config: H100:8/n200
    market: owned
    usd_per_hour: 0           # only what is owned may cost nothing
    available: 2
pools:
  - {id: power, limit: 3, unit: nodes, members: {onprem/hall-a/dgx-h100/owned: 1}}
traffic:
  - {source: onprem/hall-a, target: aws/use2-az1, usd_per_gb: 0.05}
availability:
  - {zone: aws/us-east-2, config: "L40S:1", market: spot, available: 12}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from control.fleet_file.document import Document, parse, read_text
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.validation import validated
from control.offers.availability import with_availability
from control.offers.file_schema import OffersDocument
from control.offers.quotes import Quotes
from templates_lib.values.hardware import weaker
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice


@dataclass(frozen=True, slots=True)
class FileOffers:
    """The offers of one YAML file. Prices are a person's word: a wrong one is an error, not quarantined."""

    path: Path

    def fetch(self) -> Quotes:
        """Raises SpecError with every problem of the file at once, each with its line."""
        document = parse(read_text(self.path), str(self.path))
        content = _validated(document)
        source = self.path.name
        configs: dict[str, NodeConfig] = {}
        for section in content.offers:
            config = section.config()
            configs[config.id] = weaker(config, configs.get(config.id, config))
        quotes = Quotes(
            offers=tuple(section.offer(content.observed_at, source) for section in content.offers),
            configs=configs,
            pools=tuple(SupplyPool(p.id, p.limit, p.unit, dict(p.members), source) for p in content.pools),
            traffic=tuple(TrafficPrice(t.source, t.target, t.usd_per_gb) for t in content.traffic),
            already_checked=True,
        )
        return with_availability(quotes, [section.fact() for section in content.availability])


def _validated(document: Document) -> OffersDocument:
    content = validated(document, OffersDocument)
    repeats = [*_repeats(document, content)]
    if repeats:
        raise SpecError(repeats)
    return content


def _repeats(document: Document, content: OffersDocument) -> Iterator[SpecProblem]:
    """Two prices for one thing: nobody could say which holds."""
    ids = {
        "offers": [o.offer("", "").key for o in content.offers],
        "pools": [p.id for p in content.pools],
        "traffic": [f"{t.source} → {t.target}" for t in content.traffic],
    }
    for section, names in ids.items():
        for i, name in enumerate(names):
            if name in names[:i]:
                yield document.problem((section, i), f"{name} occurs twice in {section}; keep one")
