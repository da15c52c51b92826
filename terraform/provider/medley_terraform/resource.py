"""What a resource and a data source have to do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from medley_terraform.report import Report
from medley_terraform.schema import Schema, State
from medley_terraform.session import Session


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a plan has to decide on. `prior` is None for what is to be made."""

    prior: State | None
    planned: State
    """The configuration, with what Medley said before."""
    changed: frozenset[str]
    """Attributes in which they differ; of what is to be made, all."""


def blank(schema: Schema, **known: Any) -> State:
    """Return a state of which only `known` is known."""
    return {each.name: known.get(each.name) for each in schema.attributes}


class Resource(ABC):
    """Methods that call the API raise Failure. What they return are values of computed attributes."""

    name: ClassVar[str]
    schema: ClassVar[Schema]
    import_id: ClassVar[str]
    """What `terraform import` takes, for the documentation."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def validate(self, config: State, report: Report) -> None:  # noqa: B027 - most have nothing to add
        """Check rules over several attributes, without the API; those of one are its limits."""

    @abstractmethod
    def plan(self, change: Change, report: Report) -> State:
        """Return what computed attributes will be; those left out are unknown in what is made, else they stay."""

    @abstractmethod
    def create(self, planned: State, report: Report) -> State: ...

    @abstractmethod
    def read(self, state: State, report: Report) -> State | None:
        """Return all attributes, as they are now; None: it is gone."""

    @abstractmethod
    def update(self, prior: State, planned: State, report: Report) -> State: ...

    @abstractmethod
    def delete(self, state: State, report: Report) -> None: ...

    def identified(self, identifier: str, report: Report) -> State | None:  # noqa: ARG002
        """Return the attributes that `read` finds it by; None, with an error reported, for what is no identifier."""
        return blank(self.schema, name=identifier)


class DataSource(ABC):
    name: ClassVar[str]
    schema: ClassVar[Schema]

    def __init__(self, session: Session) -> None:
        self.session = session

    @abstractmethod
    def read(self, config: State, report: Report) -> dict[str, Any]:
        """Return values of computed attributes. Raises Failure."""
