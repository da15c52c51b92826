"""Names that follow from what they name: whoever tries again, after whatever crash, arrives at the same one."""

import hashlib

import msgspec

from templates_lib.values.offer import Market

_ID_BYTES = 6
"""48 bits: of a million instances, two share an id with probability 0.2 %; the write then refuses the second."""


def instance_id(plan_id: str, template_id: str, zone: str, market: Market, copy: int) -> str:
    """Name the `copy`-th instance that a plan adds of one column: applying a plan twice asks for the same instances."""
    content = msgspec.json.encode((plan_id, template_id, zone, market, copy))
    return f"i{hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()}"


def node_name(instance_id: str, place: int, attempt: int) -> str:
    """The cloud's name of a node, such as `medley-i0123456789ab-2-0`: letters, digits and hyphens, 26 characters and
    up, which every cloud allows. A further attempt at a place has another name: clouds keep names of dead nodes."""
    return f"medley-{instance_id}-{place}-{attempt}"
