"""The life-cycle of an instance: one table.

Theory of operation. An instance is a gang of nodes that serve one template together: it is up when all of them are, and
when one is lost the instance fails, its requests going on elsewhere. So its state is one word for the whole gang.

    requested → provisioning → bootstrapping → loading → ready → draining → terminating → terminated
                     └──────────────┴────────────┴─────────┴────────┴──→ failed ──┘

The way goes forward only. Nothing that went wrong is mended in place: a failed instance is given back and another one,
under another id, takes its place. Therefore every life ends, and an event that is delivered late or twice finds no edge
and is refused without harm.

Two properties carry the promise that nothing is billed that no row explains. Nodes are rented in `provisioning` only,
under a lock on the instance's row, so that once an instance has left that state its nodes can only become fewer. And
`terminated` is reached from `terminating` only, by the fact that no node is left; so an instance with a node is never
called terminated, and `failed` is not an end: whoever fails an instance still has to give its nodes back.

Who reports what: NODES_UP, NODE_LOST and NODES_GONE come from comparing rows with the cloud's list; AGENTS_UP, LOADED,
DRAINED and BROKE from agents (and BROKE from whoever finds no offer left); TIMED_OUT from whoever watches the clock;
PROVISION, DRAIN and RELEASE are decisions of the executor.
"""

from collections.abc import Mapping
from types import MappingProxyType

from control.lifecycle.event import EventKind as E
from control.lifecycle.state import InstanceState as S

TRANSITIONS: Mapping[tuple[S, E], S] = MappingProxyType(
    {
        # The executor takes the instance up. From here on intents to rent nodes may be recorded.
        (S.REQUESTED, E.PROVISION): S.PROVISIONING,
        # The plan changed before anything was rented. Not straight to terminated: that has one way in.
        (S.REQUESTED, E.RELEASE): S.TERMINATING,
        # The gang is whole. A node lost before that is replaced in its place and is no event of the instance.
        (S.PROVISIONING, E.NODES_UP): S.BOOTSTRAPPING,
        # The gang was not whole in time: what there is of it is held supply for others, or is given back.
        (S.PROVISIONING, E.TIMED_OUT): S.FAILED,
        # No offer is left that could complete the gang, or the cloud refuses us for good.
        (S.PROVISIONING, E.BROKE): S.FAILED,
        # The plan changed while nodes were being rented: there is nothing to drain.
        (S.PROVISIONING, E.RELEASE): S.TERMINATING,
        # Every agent has a registered key, so that it can be given layers and peers.
        (S.BOOTSTRAPPING, E.AGENTS_UP): S.LOADING,
        # A preemption may come before the first request.
        (S.BOOTSTRAPPING, E.NODE_LOST): S.FAILED,
        # A node whose agent never speaks costs as much as one that works.
        (S.BOOTSTRAPPING, E.TIMED_OUT): S.FAILED,
        # An agent came up and found that it cannot work here: wrong driver, another protocol version.
        (S.BOOTSTRAPPING, E.BROKE): S.FAILED,
        # The plan changed before anything was loaded.
        (S.BOOTSTRAPPING, E.RELEASE): S.TERMINATING,
        # Weights are in place and a first step went through all stages: the router may know of it now.
        (S.LOADING, E.LOADED): S.READY,
        # With a node its layers are lost.
        (S.LOADING, E.NODE_LOST): S.FAILED,
        # Weights that come too slowly, or a stage that hangs in its first step.
        (S.LOADING, E.TIMED_OUT): S.FAILED,
        # Out of memory, or a weight file that fails its checksum: the reason decides whether smaller may work.
        (S.LOADING, E.BROKE): S.FAILED,
        # The plan changed before the first request.
        (S.LOADING, E.RELEASE): S.TERMINATING,
        # No new request from now on. There is no way past draining for an instance that serves.
        (S.READY, E.DRAIN): S.DRAINING,
        # Its unfinished requests are computed again elsewhere from the tokens already sent.
        (S.READY, E.NODE_LOST): S.FAILED,
        # An engine that cannot go on although its node lives; requests go elsewhere as above.
        (S.READY, E.BROKE): S.FAILED,
        # The last request has finished or was handed over.
        (S.DRAINING, E.DRAINED): S.TERMINATING,
        # The drain's deadline has passed, or an operator does not wait: the rest goes on elsewhere.
        (S.DRAINING, E.RELEASE): S.TERMINATING,
        # As for ready: what was left of its requests goes elsewhere.
        (S.DRAINING, E.NODE_LOST): S.FAILED,
        # As for ready.
        (S.DRAINING, E.BROKE): S.FAILED,
        # A failed instance may hold nodes: they are given back like any others.
        (S.FAILED, E.RELEASE): S.TERMINATING,
        # The only way into the end, and only without a node (`advance` checks it, and so does the write).
        (S.TERMINATING, E.NODES_GONE): S.TERMINATED,
    }
)
