"""Deployment options of an any-to-any model, and the paths that requests take through them (Cornserve, section 4.2)."""
