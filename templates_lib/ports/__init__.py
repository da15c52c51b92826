"""What templates, plans and step times are asked of: protocols that databases, solvers and tests implement."""
