"""What machines are labelled with on their clouds, beside what a request asks for."""

OWNER_LABEL = "medley-owner"
"""Set by whoever asks for a node (`control.executor.nodes.OWNER_TAG`): by it machines are found again."""
NODE_LABEL = "medley-node"
"""Its value is the node's name, which SkyPilot may shorten in a machine's own name."""
