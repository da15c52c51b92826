"""Worlds made of logs, behind the ports of the real ones."""
