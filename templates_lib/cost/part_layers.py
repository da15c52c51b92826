"""The cut of a node's layers where the node is a pipeline inside."""


def part_layers(layers: int, parts: int) -> tuple[int, ...]:
    """Layers of each of `parts` consecutive parts: as even as they can be, as throughput and memory of such a node are
    computed (`templates_lib.throughput`). The larger ones come first: behind the last one there may be the LM head.

    Raises ValueError where a part would be empty.
    """
    if not 1 <= parts <= layers:
        raise ValueError(f"{layers} layers cannot be cut into {parts} parts")
    return tuple(layers // parts + (part < layers % parts) for part in range(parts))
