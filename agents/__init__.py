"""What runs on a node: channels, messages, engines, stages and schedulers. Knows nothing of the control plane."""
