"""Estimated requests/s of components on one A100 beside what the Cornserve paper measured (its Table 1 and Figure 2).

    python -m bench.component_times

No bar: nothing was fitted on encoders or generators, and the paper's servers add what an estimate does not know.
"""

import sys
from dataclasses import replace

from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import ComponentWork
from templates_lib.values.hardware import load_gpus, node_config_from_id

FRAMES = 16
"""Of a video of 10,000 tokens: the paper does not say; each is an image of its own to the encoder."""
ANSWER = ComponentWork(100, 1, 1000 + 600 + 10_000)
"""An answer to a text, an image and a video."""
HEARD = replace(ANSWER, context_tokens=ANSWER.context_tokens + 200)
MEASURED = (
    ("qwen2.5-omni-7b", "vision", "image of 600 tokens", ComponentWork(600), 15.64),
    ("qwen2.5-omni-7b", "vision", "video of 10,000 tokens", ComponentWork(10_000, FRAMES), 1.28),
    ("qwen2.5-omni-7b", "hearing", "clip of 200 tokens", ComponentWork(200), 34.04),
    ("qwen2.5-omni-7b", "thinker", "text, image, video, audio", HEARD, 1.09),
    ("qwen2.5-vl-32b", "vision", "image of 600 tokens", ComponentWork(600), 12.04),
    ("qwen2.5-vl-32b", "vision", "video of 10,000 tokens", ComponentWork(10_000, FRAMES), 0.89),
    ("qwen2.5-vl-32b", "language", "text, image, video", ANSWER, 0.32),
    ("internvl3-38b", "vision", "image of 13 tiles (Figure 2)", ComponentWork(13 * 256, 13), 1.6),
    ("internvl3-38b", "language", "text, image, video", ANSWER, 0.28),
    ("qwen-image", "text", "prompt of 1,000 tokens", ComponentWork(1000), 15.67),
    ("qwen-image", "picture", "512 by 512, 20 steps", ComponentWork(20, 1, 1000, 1024), 0.20),
)
"""(graph, component, request, work, requests/s in the paper)."""


def main() -> int:
    costs = EstimatedComponentCost(estimated_cost_model(load_gpus()))
    node = node_config_from_id("A100-80:1/n100")
    print(f"{'graph':18}{'component':11}{'request':30}{'paper':>8}{'estimate':>10}{'ratio':>7}")
    for graph, name, request, work, paper in MEASURED:
        component = load_graph(graph).component(name)
        together = max(costs.most_requests(component, node, work, 0.0), 1.0)
        estimate = together / costs.seconds(component, node, work, together)
        print(f"{graph:18}{name:11}{request:30}{paper:8.2f}{estimate:10.2f}{estimate / paper:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
