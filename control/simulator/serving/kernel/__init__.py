"""The serving simulation as machine code: calls over the legs of their routes, at stations that serve them. Tests hold
it equal to `bench/stepping`, which runs the production schedulers, and to a slow reference of batch stations.

It mirrors `control.gateway.dispatcher`. Routers are not mirrored: their choices come in. Every array is of records
(`records`, `autoregressive.records`): `w.calls[call].request`.
"""
