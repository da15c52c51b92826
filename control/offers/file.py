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
from typing import Any

from pydantic import BaseModel, ValidationError

from control.offers.availability import with_availability
from control.offers.file_schema import AvailabilitySection, OffersDocument, OfferSection, PoolSection, TrafficSection
from control.offers.quotes import Quotes
from control.spec.document import Document, parse, read_text
from control.spec.problem import Problem, SpecError
from templates_lib.hardware import weaker
from templates_lib.nearest_name import nearest_name
from templates_lib.node_config import NodeConfig
from templates_lib.supply import SupplyPool
from templates_lib.traffic import TrafficPrice

SECTIONS: dict[str, type[BaseModel]] = {
    "offers": OfferSection,
    "pools": PoolSection,
    "traffic": TrafficSection,
    "availability": AvailabilitySection,
}


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
            stated_by_person=True,
        )
        return with_availability(quotes, [section.fact() for section in content.availability])


def _validated(document: Document) -> OffersDocument:
    if not isinstance(document.value, dict):
        raise SpecError([document.problem((), "must be a mapping that starts with apiVersion: medley/v1")])
    try:
        content = OffersDocument.model_validate(document.value)
    except ValidationError as error:
        raise SpecError(_problem(document, e) for e in error.errors(include_url=False)) from None
    repeats = [*_repeats(document, content)]
    if repeats:
        raise SpecError(repeats)
    return content


def _repeats(document: Document, content: OffersDocument) -> Iterator[Problem]:
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


def _problem(document: Document, error: Any) -> Problem:
    key = tuple(error["loc"])
    place = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in key).lstrip(".")
    if error["type"] == "extra_forbidden":
        schema = SECTIONS.get(str(key[0]), OffersDocument) if len(key) > 1 else OffersDocument
        return document.problem(key, f"unknown key {place!r}; {nearest_name(str(key[-1]), schema.model_fields)}")
    if error["type"] == "missing":
        return document.problem(key[:-1], f"{place} is missing")
    if error["type"] == "value_error":
        return document.problem(key, f"{place}: {error['ctx']['error']}")
    if error["type"] == "enum":
        names = error["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return document.problem(
            key, f"{place}: unknown value {error['input']!r}; {nearest_name(str(error['input']), names)}"
        )
    message = error["msg"].replace("Input should be", "must be")
    return document.problem(key, f"{place}: {message[0].lower()}{message[1:]}, is {str(error['input'])[:60]!r}")
