"""The set-ups of examples/ that libraries and plans are measured on."""

from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SETUPS = {"extended": "coral-extended.yaml", "core": "coral-core.yaml", "real-clouds": "real-clouds.yaml"}
