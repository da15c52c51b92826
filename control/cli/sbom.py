"""`medley sbom`: what Medley is made of, for those who audit it."""

import json
from typing import Annotated

import typer

from control.bill_of_materials import Part, bill_of_materials


def sbom(
    part: Annotated[Part, typer.Argument(help="The control plane as it is installed here, or what nodes install.")] = (
        Part.CONTROL
    ),
) -> None:
    """Print a bill of materials (CycloneDX 1.6, JSON): every package with its version, and licence or hashes."""
    typer.echo(json.dumps(bill_of_materials(part), indent=2))
