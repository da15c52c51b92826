"""T̂: the most work per second of one node, for every role, latency budget and layer count."""
