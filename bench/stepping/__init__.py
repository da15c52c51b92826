"""The serving simulation step by step over the production schedulers (`agents.scheduler.core`): exact and slow.

What `simulate` is held equal to. Its times come from the same models, computed apart.
"""
