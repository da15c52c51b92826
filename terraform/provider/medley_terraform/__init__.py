"""Terraform provider `medley`: the admin API as resources and data sources. It knows nothing else of Medley."""

VERSION = "0.1.0"
"""Version of the package, as in pyproject.toml: a test holds them equal."""
