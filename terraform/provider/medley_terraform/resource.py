"""What a resource and a data source have to do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from medley_terraform.report import Report
from medley_terraform.schema import Schema, State
from medley_terraform.site import Site


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan has to decide on. `prior` is None for what is to be made."""

    prior: State | None
    planned: State
    """As configured, with what Medley said before."""
    changed: frozenset[str]
    """Attributes in which they differ; of what is to be made, all."""


def blank(schema: Schema, **known: Any) -> State:
    """A state of which only `known` is."""
    return {each.name: known.get(each.name) for each in schema.attributes}


class Resource(ABC):
    """Methods that call the API raise Failure. What they return are values of computed attributes."""

    name: ClassVar[str]
    schema: ClassVar[Schema]
    import_id: ClassVar[str]
    """What `terraform import` takes, for the documentation."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def validate(self, config: State, report: Report) -> None:  # noqa: B027 - most have nothing to add
        """Rules over several attributes; those of one are its limits. Without the API."""

    @abstractmethod
    def plan(self, change: Change, report: Report) -> State:
        """What computed attributes will be; those left out are unknown in what is made, and stay in what is changed."""

    @abstractmethod
    def create(self, planned: State, report: Report) -> State: ...

    @abstractmethod
    def read(self, state: State, report: Report) -> State | None:
        """All attributes, as they are now; None: it is gone."""

    @abstractmethod
    def update(self, prior: State, planned: State, report: Report) -> State: ...

    @abstractmethod
    def delete(self, state: State, report: Report) -> None: ...

    @abstractmethod
    def identified(self, identifier: str, report: Report) -> State | None:
        """The attributes that `read` finds it by; None, and an error in the report, for what is no identifier."""


class DataSource(ABC):
    name: ClassVar[str]
    schema: ClassVar[Schema]

    def __init__(self, site: Site) -> None:
        self.site = site

    @abstractmethod
    def read(self, config: State, report: Report) -> dict[str, Any]:
        """Values of computed attributes. Raises Failure."""
