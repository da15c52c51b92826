"""The OpenAI-compatible front: a process of its own that serves from the last routing table it has."""
