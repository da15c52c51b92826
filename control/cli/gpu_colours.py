"""Colours of GPUs in pictures: a GPU has the same in every one, and in the console's light theme."""

GPU_COLOURS = {
    "L4": "#0f9d8a", "L40S": "#4a67e0", "A10G": "#c0770d", "A100-80": "#9a44c4", "H100": "#cf3f6f", "T4": "#5d8a1f",
    "L40": "#1f86b8", "H200": "#b4553a", "V100": "#6a6f7d", "B200": "#7d6bd6", "A100-40": "#d98cf0", "A40": "#8f7a00",
    "RTXPRO6000": "#7a4b2a", "V100-32": "#a9b4c8", "MI300X": "#e2553d",
}  # fmt: skip
OTHER = "#0e5a8a"
"""Of one that is not of the catalogue."""
