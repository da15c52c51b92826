"""Actions of people on fleets, plans, budgets and the rest: one function a verb, which CLI, API and `medley up` all
call.

An action checks, writes and records its event in one transaction. It returns what the surface shows, or raises an error
of `refusal` or `control.db.errors` whose type says the next step; surfaces only translate both.
"""
