"""How many requests come and how long they are: traces, rate curves, shapes of workloads."""
