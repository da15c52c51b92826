"""Nodes: sidecars that run on threads of this process, and end with the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from agents.tensors.settings import SidecarSettings
from tests.agents.tensors.nodes import SETTINGS, Node, run_node


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    with ExitStack() as stack:

        def make(settings: SidecarSettings = SETTINGS) -> Node:
            return stack.enter_context(run_node(settings))

        yield make


@pytest.fixture
def node(start: Callable[..., Node]) -> Node:
    return start()


@pytest.fixture
def other(start: Callable[..., Node]) -> Node:
    return start()
