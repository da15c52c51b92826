"""A configuration against the limits of its schema: what needs no API to be wrong."""

import json
import re
from typing import Any

from medley_terraform.report import Element, Path, Report
from medley_terraform.types import Attribute, Collection, Limits, Many, Nested, Nesting, Scalar
from medley_terraform.unknown import Unknown


def check(kind: Nested, raw: Any, report: Report, path: Path = ()) -> None:
    """Reports every value that breaks a limit; of what is unknown nothing can be said. `raw`: of one object, as it came
    from Terraform."""
    for attribute in kind.attributes:
        value = raw.get(attribute.name)
        if value is None or isinstance(value, Unknown):
            continue
        here = (*path, attribute.name)
        match attribute.type:
            case Nested(nesting) as nested:
                for key, each in _elements(nesting, value):
                    if isinstance(each, dict):
                        check(nested, each, report, here if key is None else (*here, Element(key)))
            case Many(collection):
                parts = value.values() if collection is Collection.MAP else value
                for each in parts:
                    _check_one(attribute, each, report, here)
            case Scalar():
                _check_one(attribute, value, report, here)


def _elements(nesting: Nesting, value: Any) -> list[tuple[str | int | None, Any]]:
    match nesting:
        case Nesting.SINGLE:
            return [(None, value)]
        case Nesting.LIST:
            return list(enumerate(value))
        case Nesting.MAP:
            return list(value.items())


def _check_one(attribute: Attribute, value: Any, report: Report, path: Path) -> None:
    if value is None or isinstance(value, Unknown):
        return
    kind = attribute.type.item if isinstance(attribute.type, Many) else attribute.type
    if kind is Scalar.JSON:
        try:
            found = json.loads(value)
        except ValueError as error:
            report.error(f"{attribute.name} is not JSON", f"{error}. Give it as file(...) or jsonencode(...).", path)
            return
        if not isinstance(found, dict):
            report.error(f"{attribute.name} is not a JSON object", "It has to begin with a brace.", path)
        return
    complaint = (
        _number(float(value), attribute.limits) if kind is Scalar.NUMBER else _text(str(value), attribute.limits)
    )
    if complaint:
        report.error(f"{attribute.name} {complaint}", f"It is {value}.", path)


def _number(value: float, limits: Limits) -> str:
    rules = (
        (limits.whole and not value.is_integer(), "has to be a whole number"),
        (limits.least is not None and value < limits.least, f"has to be at least {limits.least}"),
        (limits.above is not None and value <= limits.above, f"has to be above {limits.above}"),
        (limits.most is not None and value > limits.most, f"has to be at most {limits.most}"),
        (limits.below is not None and value >= limits.below, f"has to be below {limits.below}"),
    )
    return next((complaint for broken, complaint in rules if broken), "")


def _text(value: str, limits: Limits) -> str:
    if limits.one_of and value not in limits.one_of:
        return f"has to be one of {', '.join(limits.one_of)}"
    if limits.pattern and re.fullmatch(limits.pattern, value) is None:
        return f"does not fit {limits.pattern}"
    if limits.longest is not None and len(value) > limits.longest:
        return f"has to have at most {limits.longest} characters"
    return ""
