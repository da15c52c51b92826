"""Encoders by torch's operations."""
