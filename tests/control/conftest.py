"""What tests of several folders of the control plane share."""

from collections.abc import Iterator

import pytest

from tests.control.alerts.receiver import Receiver
from tests.http_endpoint import running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    with running(server):
        yield server
