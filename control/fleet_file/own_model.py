"""A model of somebody's own, registered under a name that spec files may use."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec


@dataclass(frozen=True, slots=True)
class OwnModel:
    name: str
    config: Mapping[str, Any]
    """config.json of Hugging Face."""
    weights: str = ""
    """`hf:ORG/NAME@REVISION`, `package:NAME` or `path:PATH`; empty: not said."""

    def spec(self) -> ModelSpec:
        """Raises UnsupportedModelError, ValueError for a config that cannot be read."""
        text = json.dumps(self.config, sort_keys=True)
        revision = f"registered {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
        return model_from_hf_config(dict(self.config), self.name, revision)
