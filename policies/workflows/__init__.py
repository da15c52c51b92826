"""Which calls of a run follow, and where they are computed (DyOrc, sections 5.2 and 5.3): values and arithmetic."""
