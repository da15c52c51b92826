"""What goes over a control wire: frozen msgspec structs in msgpack, grouped by receiver. No pickle, no torch."""
