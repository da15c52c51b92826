"""The engines of an executor with the sidecar of their node, in this process."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from agents.engines.torch_components.engine import load_torch_encoder
from agents.executor.encoders import Encoders, FetchedUnit
from agents.executor.exchange import Rows, Wanted
from agents.messages.component_work import Encode, TensorAt
from agents.messages.to_sidecar import SidecarAddress
from agents.tensors.client import TensorClient
from agents.transfer.errors import LinkLostError
from agents.weights.source import open_checkpoint
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.agents.engines.pipelines import DEVICE
from tests.agents.tensors.nodes import IMPATIENT, SETTINGS, Node, run_node

COMPONENT, OTHER = "vision", "hearing"
VALUES = np.random.default_rng(0).standard_normal((3, 28, 28)).astype(np.float32)
KEY = "picture-of-some-hash"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with run_node(IMPATIENT) as node:
        yield node


@pytest.fixture(scope="module")
def encoders(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoders]:
    """Two components, which are the same encoder."""
    folder = tmp_path_factory.mktemp("encoders")
    save_graph("dinov2", folder)
    engine = load_torch_encoder(open_checkpoint(folder), "vision", torch.float32, DEVICE)
    encoders = Encoders({COMPONENT: engine, OTHER: engine}, node.name, "encoders")
    yield encoders
    encoders.close()


def wanted(number: int, unit: TensorAt, component: str = COMPONENT, key: str | None = None) -> Wanted:
    asked = Encode(number, f"r{number}", "pictures", component, unit, f"rows-{number}", 60.0, key=key)
    return Wanted((b"gateway", number), asked, time.monotonic() + 60)


def put(encoders: Encoders, each: Wanted, unit: FetchedUnit) -> Rows:
    (rows,) = encoders.encode(each.asked.component, [(each, unit)])
    assert isinstance(rows, np.ndarray), rows
    answer = encoders.put(each, rows)
    assert isinstance(answer, Rows), answer
    return answer


def test_another_node_that_is_gone_costs_the_unit_that_lay_there_and_no_client(encoders: Encoders) -> None:
    with run_node(SETTINGS) as other:
        gone = other.sidecar.address
    before = encoders._tensors.use(lambda client: client)
    with pytest.raises(LinkLostError):
        encoders.fetch(wanted(1, TensorAt("unit", SidecarAddress(gone.host, gone.port, gone.token, gone.is_encrypted))))
    assert encoders._tensors.use(lambda client: client) is before


def test_a_client_of_its_own_that_is_gone_is_replaced(encoders: Encoders, node: Node) -> None:
    encoders._tensors.use(lambda client: client.close())
    node.client("front").put("unit-2", VALUES)
    assert isinstance(encoders.fetch(wanted(2, TensorAt("unit-2"))), FetchedUnit)


def test_a_client_is_gone_with_its_sidecar_and_not_before() -> None:
    with run_node(SETTINGS) as node:
        client = TensorClient(node.name, "encoders")
        assert not client.is_gone()
    assert client.is_gone()


@pytest.mark.parametrize("kind", ["flat", "narrow", "doubles", "stream"])
def test_what_is_kept_and_is_no_rows_is_passed_over(encoders: Encoders, node: Node, kind: str) -> None:
    number = 10 + ["flat", "narrow", "doubles", "stream"].index(kind)
    each = wanted(number, TensorAt(f"unit-{number}"), key=f"{KEY}-{kind}")
    key, width = encoders.key_of(each.asked), encoders._engines[COMPONENT].facts.row_width
    front = node.client("front")
    match kind:
        case "flat":
            front.put(kind, np.zeros(width, np.float32), key=key)
        case "narrow":
            front.put(kind, np.zeros((5, width - 1), np.float32), key=key)
        case "doubles":
            front.put(kind, np.zeros((5, width)), key=key)
        case _:
            with front.stream(kind, "float32", (5, width), key=key) as stream:
                stream.write(np.zeros((1, 5, width), np.float32))
    front.put(f"unit-{number}", VALUES)
    found = encoders.fetch(each)
    assert isinstance(found, FetchedUnit)
    answer = put(encoders, each, found)
    rows = front.take(f"rows-{number}", answer.place).array
    assert rows.shape == (answer.rows, answer.row_width)
    assert np.any(rows)


def test_rows_of_one_component_are_not_those_of_another(encoders: Encoders, node: Node) -> None:
    front = node.client("front")
    for number in (20, 21, 22):
        front.put(f"unit-{number}", VALUES)
    first, same, other = (
        wanted(20, TensorAt("unit-20"), key=KEY),
        wanted(21, TensorAt("unit-21"), key=KEY),
        wanted(22, TensorAt("unit-22"), OTHER, key=KEY),
    )
    found = encoders.fetch(first)
    assert isinstance(found, FetchedUnit)
    put(encoders, first, found)
    assert isinstance(encoders.fetch(same), Rows)
    assert isinstance(encoders.fetch(other), FetchedUnit)
