"""The placement ILP of Coral (section 4.2), solved by general solvers: the reference for the placement solver."""
