"""Where gateways report the load that they are offered."""
