"""Measured profiles for people and for programs."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console

from control.cli.output import Output, console, emitted, table
from control.db.location import home_directory
from control.planning.local_profiles import profile_store
from control.profiles.comparison import LAYERS, compare
from control.profiles.store import StoredProfile
from templates_lib.models.catalogue import load_models


def known_profiles() -> tuple[StoredProfile, ...]:
    return profile_store(home_directory(os.environ)).all()


def profile_document(stored: StoredProfile) -> dict[str, Any]:
    """The profile without its rows, with `steps`: measured and estimated milliseconds."""
    document: dict[str, Any] = msgspec.to_builtins(stored.profile)
    model = load_models().get(stored.profile.model)
    steps = [] if model is None else [msgspec.to_builtins(one) for one in compare(stored, model)]
    return document | {"rows": len(stored.rows), "layers": LAYERS, "steps": steps}


def print_profiles(profiles: Sequence[StoredProfile], output: Output) -> None:
    """Print profiles with the error of each."""
    if emitted([profile_document(stored) for stored in profiles], output):
        return
    right = ("steps", "held out", "median error", "worst")
    shown = table("node", "model", "engine", *right, "measured", right=right)
    for profile, rows in ((one.profile, len(one.rows)) for one in profiles):
        errors = profile.errors
        shown.add_row(
            profile.config, f"{profile.model} {profile.dtype}", profile.engine, str(rows), str(errors.rows),
            f"{errors.median:.1%}", f"{errors.worst:.1%}", profile.measured_at[:19],
        )  # fmt: skip
    console().print(shown)


def print_comparisons(profiles: Sequence[StoredProfile], console: Console) -> None:
    models = load_models()
    right = ("measured", "estimated", "ratio", "held-out error")
    shown = table("node", "model", "step", *right, "share of", right=right, title=f"Measured, ms of {LAYERS} layers")
    for stored in profiles:
        profile = stored.profile
        for one in compare(stored, models[profile.model]) if profile.model in models else ():
            shown.add_row(
                profile.config, profile.model, one.step, f"{one.measured_ms:.1f}", f"{one.estimated_ms:.1f}",
                f"{one.ratio:.2f}", f"{profile.errors.median:.1%}", profile.machine,
            )  # fmt: skip
    console.print(shown)
