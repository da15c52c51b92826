"""The orchestrator: executes runs of workflows. Their code runs in processes of its own; what that calls is journaled,
and done by Medley's gateway and by services."""
