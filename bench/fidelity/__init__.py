"""The simulator beside the real local runtime, on the same requests."""
