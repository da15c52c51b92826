"""The overlay network of a control plane: WireGuard from its machine to each node that it rents in private networks."""
