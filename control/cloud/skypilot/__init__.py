"""AWS, GCP, RunPod and Kubernetes through SkyPilot: its server does the work, a process of its own holds its SDK."""
