"""Telling people: what holds (`policies.alert_rules`) is kept in rows, and sent to webhooks until they have it."""
