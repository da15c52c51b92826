"""Runs of workflows: their life, what is on record of them, and what that allows next. Values alone: no clock, database
or process."""
