"""Ports that templates, plans and step times are asked through: databases, solvers and tests implement them."""
