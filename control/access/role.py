"""What the holder of an API token may do."""

from enum import StrEnum


class Role(StrEnum):
    """Each may do what those above it may."""

    CLIENT = "client"
    """Call the models, and see nothing else."""
    VIEWER = "viewer"
    """See everything, touch nothing."""
    OPERATOR = "operator"
    """Apply plans, drain and launch."""
    ADMIN = "admin"
    """Make and revoke tokens, change settings and budgets."""

    def covers(self, needed: "Role") -> bool:
        order = tuple(Role)
        return order.index(self) >= order.index(needed)
