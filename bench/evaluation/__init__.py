"""The evaluation of the Coral paper (section 6), run again: one module an experiment, `python -m bench.evaluation`."""
