"""A process for SkyPilot's SDK: it reads its settings when it is imported, takes seconds and 200 MB, and prints."""
