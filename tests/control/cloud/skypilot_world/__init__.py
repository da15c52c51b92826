"""Clouds for SkyPilot on this machine: what a test replaces of it, and nothing else (`plugin.PATCHED` lists it)."""
