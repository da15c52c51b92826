"""The serving side, on nodes: channels, messages, engines, stages and schedulers. Knows nothing of the control
plane."""
