"""Load: how many requests come and how long they are, as traces, rate curves and shapes of workloads."""
