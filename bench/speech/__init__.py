"""Kokoro-82M out of packages as a checkpoint, and how well what it says is understood."""
