"""The control plane's line to its nodes: what they shall do, how that goes, and what that means for instances."""
