"""Pools by stage (ModServe, sections 4.2 and 4.3): which encoder reads a picture, which instance a prompt, in which
order, and how many of each there are."""
