"""Targets of Prometheus' file_sd from `medley instances -o json` on stdin: the metrics of every node.

medley instances -o json | python examples/monitoring/node_targets.py > nodes.json
"""

import json
import sys
from urllib.parse import urlsplit

if __name__ == "__main__":
    nodes = [
        {"targets": [urlsplit(node["metrics"]).netloc], "labels": {"node": node["name"], "instance_id": view["id"]}}
        for view in json.load(sys.stdin)
        for node in view["nodes"]
        if node.get("metrics")
    ]
    json.dump(nodes, sys.stdout, indent=1)
