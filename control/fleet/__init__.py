"""A fleet as it is kept: what a plan wants is launched, what fails is replaced, what serves is published."""
