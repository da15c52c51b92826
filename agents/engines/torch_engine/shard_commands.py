"""Commands of a sharded stage's first rank to the others, and their answers: msgpack with raw tensor bytes."""

from dataclasses import replace

import msgspec
import torch

from agents.engines.batch import BlockName, StepBatch
from agents.engines.given_rows import NOTHING_GIVEN, EmbeddedRows, EncodedRows, GivenRows
from agents.engines.kv_part import KvPart


class PackedTensor(msgspec.Struct, array_like=True, frozen=True):
    """A tensor: data type by name, shape, bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "PackedTensor":
        raw = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        return cls(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), raw.numpy().tobytes())

    def tensor(self) -> torch.Tensor:
        if not self.data:
            return torch.empty(self.shape, dtype=getattr(torch, self.dtype))
        raw = torch.frombuffer(bytearray(self.data), dtype=torch.uint8)
        return raw.view(getattr(torch, self.dtype)).view(self.shape)


class Step(msgspec.Struct, tag=True, frozen=True):
    batch: StepBatch
    """Without what is given, which follows."""
    rows: PackedTensor
    embedded: tuple[tuple[str, int, PackedTensor], ...] = ()
    encoded: tuple[tuple[str, PackedTensor], ...] = ()

    def whole_batch(self) -> StepBatch:
        """Return the batch with the rows that were given with it."""
        embedded = tuple(EmbeddedRows(name, position, rows.tensor()) for name, position, rows in self.embedded)
        encoded = tuple(EncodedRows(name, rows.tensor()) for name, rows in self.encoded)
        return replace(self.batch, given=GivenRows(embedded, encoded)) if embedded or encoded else self.batch


def step_command(batch: StepBatch, rows: torch.Tensor) -> Step:
    """The command to take a step, with all that an engine is given for it."""
    return Step(
        replace(batch, given=NOTHING_GIVEN),
        PackedTensor.of(rows),
        tuple((each.request_id, each.position, PackedTensor.of(each.rows)) for each in batch.given.embedded),
        tuple((each.request_id, PackedTensor.of(each.rows)) for each in batch.given.encoded),
    )


class Free(msgspec.Struct, tag=True, frozen=True):
    request_id: str
    kept: tuple[int, ...] = ()


class Drop(msgspec.Struct, tag=True, frozen=True):
    blocks: tuple[BlockName, ...]


class Reserve(msgspec.Struct, tag=True, frozen=True):
    request_id: str
    tokens: int


Command = Step | Free | Drop | Reserve
"""Obeyed in order, and not answered."""


class ExportKv(msgspec.Struct, tag=True, frozen=True):
    request_id: str
    part: KvPart
    behind: int
    """Commands that must have been obeyed first."""


class ImportKv(msgspec.Struct, tag=True, frozen=True):
    request_id: str
    part: KvPart
    rows: PackedTensor
    behind: int


Copy = ExportKv | ImportKv
"""Obeyed beside commands, and answered."""


class Exported(msgspec.Struct, tag=True, frozen=True):
    rows: PackedTensor


class Imported(msgspec.Struct, tag=True, frozen=True):
    pass


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """First answer of a rank."""

    stored_bytes: int


class CommandFailed(msgspec.Struct, tag=True, frozen=True):
    """First answer of a rank that could not load; or a copy that could not be made."""

    why: str


commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
copies: msgspec.msgpack.Decoder[Copy] = msgspec.msgpack.Decoder(Copy)
first_answers: msgspec.msgpack.Decoder[Loaded | CommandFailed] = msgspec.msgpack.Decoder(Loaded | CommandFailed)
copy_answers: msgspec.msgpack.Decoder[Exported | Imported | CommandFailed] = msgspec.msgpack.Decoder(
    Exported | Imported | CommandFailed
)
encode = msgspec.msgpack.Encoder().encode
