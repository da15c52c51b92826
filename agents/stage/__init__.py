"""The worker process of one stage: an engine, its edges, and a channel to the instance's scheduler."""
