"""Clouds that nodes come from: one port, an adapter a vendor. An adapter knows its vendor and nothing of rows or
plans."""
