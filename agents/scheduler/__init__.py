"""The scheduler of one instance: which tokens of which request every stage computes next."""
