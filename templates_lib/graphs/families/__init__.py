"""Readers of the published configs of any-to-any models, one module a family."""
