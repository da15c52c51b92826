"""Where templates come from: enumerated pipelines, lists that people write, and running ones certified anew."""
