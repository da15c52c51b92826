"""Template sources: enumerated pipelines, lists that people write, and running templates certified again."""
