"""What a spec file says of how a fleet is kept on its plan."""

from control.fleet_file.numbers import NonNegativeCount, Positive, Share
from control.fleet_file.section import Section


class DisruptionSection(Section):
    """How much of a fleet may be moved voluntarily within a window. Failures are not counted."""

    max_instances: NonNegativeCount | None = None
    max_share: Share | None = None
    """Of the instances that run; one may always be moved."""
    window_minutes: Positive = 60.0


class ReconcileSection(Section):
    """How the fleet is kept on its plan."""

    replan_minutes: Positive = 5.0
    max_new_nodes_per_hour: NonNegativeCount | None = None
    disruption: DisruptionSection = DisruptionSection()
    payback_minutes: Positive | None = 15.0
    """A move that only saves money has to pay back its start-up and its drain within this time; None: all are made."""
    payback_share: Share | None = None
    """Instances that may be moved within an hour only to save money, of those that run; one always may; None: any."""
