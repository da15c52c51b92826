"""SkyPilot's own settings of a user, as far as they say in which network nodes are launched."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def sky_settings(environment: Mapping[str, str], cloud: str) -> Mapping[str, Any]:
    """Return the section of a cloud; empty where there is none. `environment`: of the process."""
    home = environment.get("HOME", "~")
    path = Path(environment.get("SKYPILOT_GLOBAL_CONFIG") or f"{home}/.sky/config.yaml").expanduser()
    settings = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}
    section = settings.get(cloud) if isinstance(settings, dict) else None
    return section if isinstance(section, dict) else {}
