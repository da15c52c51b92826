"""Checks by which every engine of a component refuses a bad batch before it computes anything."""

from collections.abc import Sequence

import numpy as np

from agents.engines.components.codes import CodecUnit
from agents.engines.components.facts import ComponentFacts, EncoderFacts, GeneratorFacts
from agents.engines.components.unit import EncoderUnit
from agents.engines.errors import BadBatchError


def check_units(facts: EncoderFacts, units: Sequence[EncoderUnit]) -> None:
    """Raises BadBatchError, naming the unit, where a batch is not what the engine takes."""
    _check_ids(facts, [unit.id for unit in units])
    for unit in units:
        why = facts.takes.refusal(unit)
        if why is not None:
            raise BadBatchError(f"unit {unit.id!r} has shape {unit.values.shape}: {why}")
        if unit.values.dtype != np.float32 or not np.isfinite(unit.values).all():
            raise BadBatchError(f"unit {unit.id!r}: its values are finite fp32 numbers, not {unit.values.dtype}")
    _check_rows(facts, sum(map(facts.takes.rows_in, units)))


def check_codec_units(facts: GeneratorFacts, units: Sequence[CodecUnit]) -> None:
    """The same for a generator of speech."""
    _check_ids(facts, [unit.id for unit in units])
    for unit in units:
        why = facts.takes.refusal(unit)
        if why is not None:
            raise BadBatchError(f"unit {unit.id!r}: {why}")
    _check_rows(facts, sum(map(facts.takes.rows_in, units)))


def _check_ids(facts: ComponentFacts, ids: Sequence[str]) -> None:
    if not 1 <= len(ids) <= facts.most_units or len(set(ids)) != len(ids):
        raise BadBatchError(
            f"a batch of {facts.component} has 1 to {facts.most_units} units, each once: it has {len(ids)}"
        )


def _check_rows(facts: ComponentFacts, rows: int) -> None:
    if rows > facts.most_rows:
        raise BadBatchError(f"the batch has {rows} rows, more than {facts.most_rows}: send fewer or smaller units")
