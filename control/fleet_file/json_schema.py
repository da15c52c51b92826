"""The JSON schema of a fleet's spec, for programs that live without `control`. Terraform's provider is made of it:

python -m control.fleet_file.json_schema > terraform/provider/medley_terraform/fleet_file.json
"""

import json
import sys

from pydantic import TypeAdapter

from control.access.role import Role
from control.fleet_file.schema import FleetFile
from control.lifecycle.fleet import FleetMode
from control.lifecycle.state import InstanceState
from policies.priority import Priority


def json_schema() -> str:
    """Return it as text. Its definitions hold the enumerations of what is around a spec, too."""
    schema = FleetFile.model_json_schema()
    around = {each.__name__: TypeAdapter(each).json_schema() for each in (FleetMode, Role, InstanceState, Priority)}
    return json.dumps(schema | {"$defs": schema["$defs"] | around}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(json_schema())
