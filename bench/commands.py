"""The installed commands, as the benches run them."""

import sysconfig
from pathlib import Path

MEDLEY = str(Path(sysconfig.get_path("scripts")) / "medley")
