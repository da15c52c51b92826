"""A cloud on this machine: its nodes are processes with a CPU share and a memory budget.

They are no children of the control plane's life: each is a session of its own, recorded on disk before it starts, so
that a control plane which was killed finds them again, or what is left of them, and can end them whole.
"""
