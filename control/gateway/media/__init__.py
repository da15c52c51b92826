"""Pictures and sounds that requests bring: which part of a message has one, and what a model takes."""
