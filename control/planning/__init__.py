"""The use-case behind `medley plan`: from a spec file or a recorded snapshot to a plan and its baselines."""
