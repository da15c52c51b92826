"""Answers that are sound or pictures: asked of generators, and told to clients."""
