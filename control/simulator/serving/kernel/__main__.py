"""Compiles the simulation ahead, so that the first plan that promises a percentile need not wait for it:

python -m control.simulator.serving.kernel
"""

import numpy as np

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.requests import Requests
from control.simulator.serving.simulate import simulate


def main() -> None:
    """Simulate no requests: what is compiled depends on the types of arrays alone, and is kept on disk."""
    none = np.empty(0, np.int32)
    simulate(Requests((), none, np.empty(0), none, none), FleetTimeline((), ((0.0, ()),), 1.0, {}))


if __name__ == "__main__":
    main()
