"""What an engine computes of an app's graph."""

from collections.abc import Iterable, Mapping
from typing import Any

from templates_lib.values.engines import ENGINES


def parts_refusal(engine: str, name: str, config: Mapping[str, Any], components: Iterable[str]) -> str | None:
    """Say which of the components of the model `name`, published with `config`, an engine does not compute; None: it
    computes all."""
    architecture = str(config.get("model_type") or config.get("_class_name"))
    parts = ENGINES[engine].parts
    missing = [component for component in components if (architecture, component) not in parts]
    if not missing:
        return None
    own = [component for family, component in sorted(parts) if family == architecture]
    runs = f"of {architecture} it computes {', '.join(own)}" if own else f"it computes nothing of {architecture}"
    return (
        f"engine {engine} does not compute {', '.join(missing)} of {name}: {runs}; leave out the request types that "
        "need the rest, or leave out `weights`, and the app is planned to look at"
    )
