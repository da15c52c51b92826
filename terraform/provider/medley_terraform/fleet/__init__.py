"""The spec of a fleet: as attributes, as the document that the API takes, and what it would cost."""
