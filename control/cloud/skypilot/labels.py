"""Labels of machines on their clouds, besides those that a request asks for."""

OWNER_LABEL = "medley-owner"
"""Set by whoever asks for a node (`control.executor.nodes.OWNER_TAG`): by it machines are found again."""
NODE_LABEL = "medley-node"
"""Label with the node's name, which SkyPilot may shorten in a machine's own name."""
