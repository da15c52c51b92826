"""Roles of holders of API tokens."""

from enum import StrEnum


class Role(StrEnum):
    """Permissions of a token. Each role may do what those above it may."""

    CLIENT = "client"
    """Call models and run workflows of its project at a gateway, and see nothing else than what its own use cost."""
    VIEWER = "viewer"
    """See everything, touch nothing."""
    OPERATOR = "operator"
    """Apply plans, drain and launch."""
    ADMIN = "admin"
    """Make and revoke tokens, change settings and budgets."""

    def covers(self, needed: "Role") -> bool:
        order = tuple(Role)
        return order.index(self) >= order.index(needed)
