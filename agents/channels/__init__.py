"""ZeroMQ ROUTER/DEALER with CURVE keys: who may speak is a list of keys, what is spoken is `agents.messages`."""
