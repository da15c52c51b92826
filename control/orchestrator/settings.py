"""What an orchestrator may use, and how long things may take."""

from dataclasses import dataclass, field
from datetime import timedelta

from medley_sdk.messages import Limits


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    runs: int = 32
    """Runs at the same time: each has a process of some 25 MiB."""
    places: int = 1
    """Processes that the services of an app have, each with those that it was asked for: so many of their batches are
    computed at the same time. Services with a network have as many of their own."""
    worker_memory_mib: int | None = None
    """What each of these may take of the machine's memory, in MiB: of its services, those used least recently go when
    another one needs room. None: each keeps all that it was asked for."""
    models: int = 128
    """Calls of models at the same time."""
    lease: timedelta = timedelta(seconds=15)
    """Time after which the runs of an orchestrator that died are taken by others. It is renewed three times as often:
    one answer of the database may be late."""
    look_s: float = 0.1
    """Time between looks for runs that wait, and for signals: what a new run waits at the most where there is room."""
    load_s: float = 20.0
    """Longest time until the code of a run or a service is loaded, the start of its process included."""
    step_s: float = 10.0
    """Longest time for which the code of a run may compute between two calls: what takes longer is a service."""
    limits: Limits = field(default_factory=Limits)
    """Of the process of a run."""
    park_s: float = 5.0
    """A run that only waits for longer than this is let go: no process of it runs meanwhile."""
    drain_s: float = 30.0
    """Time that an orchestrator that ends waits for calls with external effects."""
    keep_s: float = 300.0
    """Time for which the services of an app stay loaded that has no run."""
    most_restarts: int = 10
    """Times that a run is executed again whose code ends its process, without anything coming of it."""
    most_kills: int = 240
    """Times that it is executed again, without anything coming of it, because its process was killed or its
    orchestrator lost: about an hour's, as nearly each takes a lease or `most_pause_s`."""
    most_pause_s: float = 15.0
    """Longest time between two executions of a run whose process is killed again and again."""
    needs_isolation: bool = True
    """Refuse to run code where the system cannot keep the network from it."""
