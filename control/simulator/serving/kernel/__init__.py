"""The serving simulation as machine code: schedulers, hand-offs and calls over arrays. Tests hold it equal to
`bench/stepping`.

What it mirrors: `agents.scheduler` (core, groups, sequence, hand_offs) and `control.gateway.dispatcher`. Routers are
not mirrored: their choices come in.
"""
