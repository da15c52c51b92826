"""Reading of a spec file: its text in, its checked content out."""

from typing import Any

from control.fleet_file.document import Document, Key
from control.fleet_file.names import Names
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.schema import FleetFile
from control.fleet_file.validation import validated
from templates_lib.values.nearest_name import nearest_name


def read(document: Document, names: Names) -> FleetFile:
    """Raises SpecError with every problem of the file at once."""
    if isinstance(document.value, dict) and str(document.value.get("format", "")).startswith("medley/snapshot"):
        raise SpecError([document.problem((), "is a recorded snapshot: give it with --snapshot instead of -f")])
    problems = _unknown_regions(document, names)
    try:
        fleet = validated(document, FleetFile, names)
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from None
    problems += _unknown_classes(document, fleet)
    if problems:
        raise SpecError(problems)
    return fleet


def _unknown_classes(document: Document, fleet: FleetFile) -> list[SpecProblem]:
    valid = [f"{m.served_name}/{p}" for m in fleet.models for p in m.phases]
    apps = {app.name for app in fleet.apps}  # their components are known once their graphs are read
    return [
        document.problem(
            ("policy", "replicas", key), f"policy.replicas: unknown work class {key!r}; {nearest_name(key, valid)}"
        )
        for key in fleet.policy.replicas
        if key not in valid and key.partition("/")[0] not in apps
    ]


def _unknown_regions(document: Document, names: Names) -> list[SpecProblem]:
    """A region is valid for its cloud only, so it is checked here, where both are at hand and each has its line."""
    named: list[tuple[Key, Any, Any]] = []
    for place, section in _listed(document, "clouds"):
        regions = section.get("regions")
        for i, region in enumerate(regions if isinstance(regions, list) else []):
            named.append((("clouds", place, "regions", i), section.get("cloud"), region))
    for place, section in _listed(document, "quotas"):
        named.append((("quotas", place, "region"), section.get("cloud"), section.get("region")))
    return [
        document.problem(
            key, f"unknown region {region!r} of {cloud}; {nearest_name(str(region), names.regions[cloud])}"
        )
        for key, cloud, region in named
        if cloud in names.regions and isinstance(region, str) and region not in names.regions[cloud]
    ]


def _listed(document: Document, part: str) -> list[tuple[int, dict[str, Any]]]:
    sections = document.value.get(part) if isinstance(document.value, dict) else None
    return [(i, s) for i, s in enumerate(sections if isinstance(sections, list) else []) if isinstance(s, dict)]
