"""Spending, for people and for Prometheus. The ledger (`control.ledger`, `control.db.ledger`) knows the money."""
