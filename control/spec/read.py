"""From the text of a spec file to its checked content."""

from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from control.spec.document import Document, Key
from control.spec.names import Names
from control.spec.problem import Problem, SpecError
from control.spec.schema import FleetFile
from templates_lib.nearest_name import nearest_name


def read(document: Document, names: Names) -> FleetFile:
    """Raises SpecError with every problem of the file at once."""
    if not isinstance(document.value, dict):
        raise SpecError([document.problem((), "must be a mapping that starts with apiVersion: medley/v1")])
    problems = _unknown_regions(document, names)
    try:
        fleet = FleetFile.model_validate(document.value, context=names)
    except ValidationError as error:
        problems += [_problem(document, e) for e in error.errors(include_url=False)]
        raise SpecError(problems) from None
    problems += _unknown_classes(document, fleet)
    if problems:
        raise SpecError(problems)
    return fleet


def _unknown_classes(document: Document, fleet: FleetFile) -> list[Problem]:
    valid = [f"{m.served_name}/{p}" for m in fleet.models for p in m.phases]
    return [
        document.problem(
            ("policy", "replicas", key), f"policy.replicas: unknown work class {key!r}; {nearest_name(key, valid)}"
        )
        for key in fleet.policy.replicas
        if key not in valid
    ]


def _unknown_regions(document: Document, names: Names) -> list[Problem]:
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
    sections = document.value.get(part)
    return [(i, s) for i, s in enumerate(sections if isinstance(sections, list) else []) if isinstance(s, dict)]


def _problem(document: Document, error: Any) -> Problem:
    key = tuple(error["loc"])
    place = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in key).lstrip(".")
    if error["type"] == "extra_forbidden":
        valid = _fields(key[:-1])
        return document.problem(key, f"unknown key {place!r}; {nearest_name(str(key[-1]), valid)}")
    if error["type"] == "missing":
        return document.problem(key[:-1], f"{place} is missing")
    if error["type"] == "value_error":
        text = str(error["ctx"]["error"])
        return document.problem(key, f"{place}: {text}" if place else text)
    if error["type"] in ("literal_error", "enum"):
        expected = error["ctx"]["expected"]
        names = expected.replace(" or ", ", ").replace("'", "").split(", ")
        hint = nearest_name(str(error["input"]), names)
        return document.problem(key, f"{place}: unknown value {error['input']!r}; {hint}")
    message = error["msg"].replace("Input should be", "must be")
    return document.problem(key, f"{place}: {message[0].lower()}{message[1:]}, is {_short(error['input'])}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fields(key: tuple[str | int, ...]) -> set[str]:
    """The keys that the schema knows at `key`."""
    here: Any = FleetFile
    for part in key:
        sections = _sections(here)
        if isinstance(part, str) and sections and part in sections[0].model_fields:
            here = sections[0].model_fields[part].annotation
    found = _sections(here)
    return set(found[0].model_fields) if found else set()


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The schema classes inside an annotation such as `list[Section] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    if get_origin(annotation) in (list, dict, Union, UnionType) or get_args(annotation):
        return [s for a in get_args(annotation) for s in _sections(a)]
    return []
