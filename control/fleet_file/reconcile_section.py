"""Section of a spec file about keeping a fleet on its plan."""

from control.fleet_file.numbers import NonNegativeCount, Positive, Share
from control.fleet_file.section import SpecSection


class DisruptionSection(SpecSection):
    """Part of a fleet that may be moved voluntarily within a window. Failures are not counted."""

    max_instances: NonNegativeCount | None = None
    """Instances that may be moved within the window. Default: any number."""
    max_share: Share | None = None
    """Share of the running instances that may be moved within the window; one may always be. Default: all."""
    window_minutes: Positive = 60.0
    """Length of the window."""


class ReconcileSection(SpecSection):
    """Settings of the loop that keeps the fleet on its plan."""

    replan_minutes: Positive = 5.0
    """Minutes between plans."""
    max_new_nodes_per_hour: NonNegativeCount | None = None
    """New nodes of the whole fleet, replacements included. Default: any number."""
    disruption: DisruptionSection = DisruptionSection()
    payback_minutes: Positive | None = 15.0  # null: all are made
    """A move that only saves money has to pay back its start-up and its drain within this time."""
    payback_share: Share | None = None
    """Share of the running instances that may be moved within an hour only to save money; one always may be.
    Default: all."""
