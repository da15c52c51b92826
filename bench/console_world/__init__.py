"""A control plane's database as it is after weeks of work, made of one seed: what the console is looked at with.

Specs, prices, plans and the templates in them are the product's own (its planner, its library, the prices that ship);
instances, what they cost and what happened to them are written as its reconciler would have written them.
"""
