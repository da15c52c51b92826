from collections import Counter

from bench.evaluation.helix_cluster import LAYERS, SHAPE, helix_nodes
from bench.evaluation.helix_pool import PlacedNode, helix_pool
from templates_lib.load.shapes import load_shape


def test_the_pool_is_the_one_that_the_papers_name() -> None:
    assert Counter(node.config for node in helix_nodes()) == {
        "A100-40:1/n10": 4, "V100:1/n10": 6, "L4:1/n10": 8, "L4:2/n10": 4,
        "T4:1/n10": 10, "T4:2/n10": 6, "T4:4/n10": 4,
    }  # fmt: skip
    gpus = {"A100-40": 4, "V100": 6, "L4": 16, "T4": 38}
    assert {g: sum(n.gpu_count for n in helix_nodes() if n.gpu == g) for g in gpus} == gpus


def test_the_placement_covers_every_layer() -> None:
    held = {layer for n in helix_nodes() for layer in range(n.first_layer, n.first_layer + n.layers)}
    assert held == set(range(LAYERS))


def test_more_layers_or_longer_requests_pass_more_slowly() -> None:
    for node in helix_nodes():
        short, long = node.requests_per_s(100, 10), node.requests_per_s(1000, 200)
        assert short > long > 0
    one, twelve = (next(n for n in helix_nodes() if n.gpu == g and n.layers == k) for g, k in (("T4", 1), ("T4", 12)))
    assert one.requests_per_s(763, 232) > 0.5 * twelve.requests_per_s(763, 232)


def test_the_whole_pool_serves_less_than_the_four_requests_a_second_that_coral_asks_of_it() -> None:
    """Section 6.6 of the Coral paper sets 4 requests/s, which "exceeds the throughput Helix reports"."""
    shape = load_shape(SHAPE)
    lengths = shape.mean_prompt_tokens, shape.mean_output_tokens
    placed = [PlacedNode(n.config, n.first_layer, n.layers, n.requests_per_s(*lengths), 1.0) for n in helix_nodes()]
    assert 1.0 < helix_pool(placed, LAYERS).requests_per_s < 4.0
