"""Short ways to say what sections of a fleet's spec are made of."""

from medley_terraform.schema import NAME_PATTERN, Attribute, Limits
from medley_terraform.types import Collection, Many, Nested, Nesting, Scalar

ANY = Limits()
ABOVE_0, NOT_NEGATIVE = Limits(above=0), Limits(least=0)
COUNT, NOT_NEGATIVE_COUNT = Limits(least=1, whole=True), Limits(least=0, whole=True)
SHARE = Limits(least=0, most=1)
NAME = Limits(pattern=NAME_PATTERN)
MARKETS = Limits(one_of=("on-demand", "spot"))


def number(name: str, description: str, limits: Limits = ANY, *, required: bool = False) -> Attribute:
    return Attribute(name=name, type=Scalar.NUMBER, description=description, limits=limits, required=required)


def text(name: str, description: str, limits: Limits = ANY, *, required: bool = False) -> Attribute:
    return Attribute(name=name, description=description, limits=limits, required=required)


def flag(name: str, description: str) -> Attribute:
    return Attribute(name=name, type=Scalar.BOOL, description=description)


def several(name: str, description: str, item: Scalar = Scalar.STRING, limits: Limits = ANY) -> Attribute:
    return Attribute(name=name, type=Many(Collection.SET, item), description=description, limits=limits)


def section(name: str, description: str, *attributes: Attribute, required: bool = False) -> Attribute:
    return Attribute(name=name, type=Nested(Nesting.SINGLE, attributes), description=description, required=required)


def listed(name: str, description: str, *attributes: Attribute, required: bool = False) -> Attribute:
    return Attribute(name=name, type=Nested(Nesting.LIST, attributes), description=description, required=required)


def mapped(name: str, description: str, *attributes: Attribute, required: bool = False) -> Attribute:
    return Attribute(name=name, type=Nested(Nesting.MAP, attributes), description=description, required=required)
