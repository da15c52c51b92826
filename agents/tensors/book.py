"""Decides what a sidecar does: who may write where in the slab, who gets which chunk, when memory is used again.

Theory of operation. A byte of the slab is free, or in one extent. An extent is held by its writer from the grant to the
commit, then by its tensor until the slowest consumer has it; by each process that looks at it until it releases it; by
the rows that are kept under a key; and by each link that sends it. It is used again when nobody holds it. What a
process holds comes back by its own word or once it is known to be dead: while it may live, it may write or read there.

A producer is charged for every extent that it claimed until that is free, however slow its consumers are; who has used
up its quota, or finds no room, waits (`claims.py`).
"""

from collections import deque

from agents.messages.to_sidecar import (
    AdoptTensor,
    ClaimChunk,
    CommitChunk,
    CreateTensor,
    EndStream,
    LeaveTensor,
    ReleaseChunk,
    SidecarAddress,
    Take,
    TakeChunk,
    WithdrawTensor,
)
from agents.messages.to_tensor_client import (
    Accepted,
    Adopted,
    ChunkHere,
    Granted,
    LinkReply,
    TensorEnded,
    TensorRefused,
    ToTensorClient,
)
from agents.tensors.chunks import check_rows, spec_bytes
from agents.tensors.claims import Claim, Claims
from agents.tensors.entry import Entry, Pull, WaitingTake
from agents.tensors.faults import fault_of
from agents.tensors.holder import Holder
from agents.tensors.kept_rows import KeptRows, Rows
from agents.tensors.settings import SidecarSettings
from agents.tensors.slab import ALIGNMENT, Extent, Slab
from agents.transfer.blob import Blob, Event, State
from agents.transfer.errors import BadPieceError, BlobGoneError, StoreFullError, TransferError

LINKS = "links"
"""Account of what is pulled from other nodes."""

Asked = CreateTensor | ClaimChunk | CommitChunk | EndStream | WithdrawTensor | AdoptTensor | TakeChunk
"""What is answered, now or later."""


class Book:
    """`answers` are for clients, and `pulls` to be started: the shell takes them out after each call. `has_changed`
    says that those who wait over links may have something."""

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self.slab = Slab(settings.slab_bytes)
        self.kept = KeptRows(self.slab, settings.kept_bytes)
        self.answers: deque[tuple[int, ToTensorClient]] = deque()
        self.pulls: deque[Pull] = deque()
        self.has_changed = False
        self.address: SidecarAddress | None = None
        """This sidecar's own: what is asked for from there is here."""
        self._tensors: dict[str, Entry] = {}
        self._clients: dict[int, Holder] = {}
        self._claims = Claims(self.slab, self.kept, settings.quota_bytes)
        self._takes: dict[str, list[WaitingTake]] = {}
        self._pulled: set[str] = set()
        """Names of pulls under way."""
        self._now_s = 0.0
        """The latest that was told."""
        self._touched: set[str] = set()
        """Tensors that something has happened to."""

    @property
    def tensors(self) -> int:
        return len(self._tensors)

    def join(self, client: int, account: str) -> None:
        self._clients[client] = Holder(account, self.slab)

    def ask(self, client: int, message: Asked, now_s: float) -> None:
        """Does what a client asks for, or notes that it waits. What is wrong with it becomes its answer."""
        self._now_s = now_s
        self._touched.add(message.name)
        try:
            match message:
                case CreateTensor():
                    self._create(client, message, self._settings.chunk_bytes)
                case ClaimChunk():
                    self._claim(client, message)
                case CommitChunk():
                    self._commit(client, message)
                case EndStream():
                    self._end(self._own(client, message.name))
                    self._answer(client, Accepted(message.call))
                case WithdrawTensor():
                    self._of(client, message.name).blob.happen(Event.WITHDRAW)
                    self._answer(client, Accepted(message.call))
                case AdoptTensor():
                    self._adopt(client, message)
                case TakeChunk():
                    self._take(client, message)
        except TransferError as error:
            self._answer(client, TensorRefused(message.call, fault_of(error), str(error)))
        self._settle()

    def release(self, client: int, message: ReleaseChunk) -> None:
        """Raises BadPieceError for what the client does not hold."""
        self._clients[client].release(self.slab.at(message.offset))
        self._settle()

    def leave(self, message: LeaveTensor) -> None:
        name = self._local_name(message.name, message.source)
        self._touched.add(name)
        waiting = self._takes.pop(name, [])
        self._takes[name] = [wait for wait in waiting if wait.consumer != message.consumer]
        for wait in waiting:
            if wait.consumer == message.consumer:
                self._answer(wait.client, TensorRefused(wait.call, "gone", "its consumer has left"))
        if (tensor := self._tensors.get(name)) is not None:
            tensor.blob.leave(message.consumer)
        self._settle()

    def lost(self, client: int, now_s: float) -> None:
        """Nobody can answer the client any more. What it holds is still held: it may live."""
        self._claims.forget(client)
        for name, waiting in self._takes.items():
            self._takes[name] = [wait for wait in waiting if wait.client != client]
        self._touched.update(self._tensors, self._takes)
        for tensor in self._tensors.values():
            tensor.blob.lose(self._clients[client], now_s)
            tensor.blob.expire(now_s)
            if tensor.producer == client and tensor.blob.state is State.OPEN:
                tensor.blob.happen(Event.WITHDRAW)  # nobody else can complete it
        self._settle()

    def holds_nothing(self, client: int) -> bool:
        """Whether the client may write or read nowhere in the slab."""
        return self._clients[client].holds_nothing

    def bury(self, client: int) -> None:
        """The client is lost, and its process dead or without a hold: what it held comes back."""
        self._clients.pop(client).release_all()
        self._settle()

    def pull(self, name: str, source: SidecarAddress, consumers: int, wait_s: float) -> None:
        """Has the tensor of another sidecar pulled, unless it is already, or its source is this one."""
        here = self._local_name(name, source)
        if here != name and here not in self._tensors and here not in self._pulled:
            self._pulled.add(here)
            self.pulls.append(Pull(here, name, source, consumers, wait_s))

    def pull_ended(self, pull: Pull, error: TransferError | None) -> None:
        """Whoever waits for it is refused where it failed."""
        self._pulled.discard(pull.name)
        self._touched.add(pull.name)
        if error is None:
            return
        for wait in self._takes.pop(pull.name, ()):
            self._answer(wait.client, TensorRefused(wait.call, fault_of(error), str(error)))
        if (tensor := self._tensors.get(pull.name)) is not None:
            tensor.blob.happen(Event.WITHDRAW)
        self._settle()

    def create_pulled(self, client: int, message: CreateTensor, now_s: float, part: int) -> None:
        """Creates what is pulled, whose chunks have the size that they have where it comes from."""
        self._now_s = now_s
        self._touched.add(message.name)
        try:
            if part <= 0 or part % ALIGNMENT:
                raise BadPieceError(f"chunks of {part} bytes are no multiple of {ALIGNMENT}")
            self._create(client, message, part)
        except TransferError as error:
            self._answer(client, TensorRefused(message.call, fault_of(error), str(error)))
        self._settle()

    def look(self, name: str) -> LinkReply | None:
        """Says to another sidecar what a tensor is; None while it is not there."""
        if (tensor := self._tensors.get(name)) is None:
            return None
        return LinkReply("spec", spec=tensor.spec, chunk_bytes=tensor.part)

    def take_over_link(self, home: object, take: Take, done: int) -> tuple[LinkReply, Extent | None] | None:
        """Answers a credit of another sidecar; None while there is no answer. The extent is held until it is `sent`.
        `done`: chunks that the consumer needs no more, as it said last. Raises TransferError."""
        if (tensor := self._tensors.get(take.name)) is None:
            raise BlobGoneError(f"tensor {take.name} is not there (any more)")
        self._touched.add(take.name)
        try:
            extent = tensor.blob.take(take.consumer, home, take.index, done)
            if extent is None:
                if tensor.blob.state is State.OPEN:
                    return None
                tensor.blob.leave(take.consumer)
                return LinkReply("ended"), None
            self.slab.hold(extent)
            self._keep(tensor)
            return LinkReply("chunk"), extent
        finally:
            self._settle()

    def sent(self, extent: Extent) -> None:
        self.slab.drop(extent)
        self._settle()

    def link_lost(self, home: object, until_s: float) -> None:
        """Consumers over this connection may come back until then."""
        for tensor in self._tensors.values():
            tensor.blob.lose(home, until_s)

    def pass_time(self, now_s: float) -> None:
        """Lets deadlines pass."""
        self._now_s = now_s
        self._touched.update(self._tensors, self._takes)
        for tensor in self._tensors.values():
            tensor.blob.expire(now_s)
        for name, waiting in self._takes.items():
            if name in self._tensors:
                continue
            for wait in [wait for wait in waiting if wait.until_s <= now_s]:
                waiting.remove(wait)
                self._answer(wait.client, TensorRefused(wait.call, "gone", f"no tensor {name} has come in time"))
        self._settle()

    # What a message does.

    def _create(self, client: int, message: CreateTensor, part: int) -> None:
        spec, size = message.spec, spec_bytes(message.spec)
        if spec.is_stream and not size:
            raise BadPieceError(f"rows of {spec.shape} have no bytes")
        self._claims.check(size)
        account = self._clients[client].account
        blob = self._blob(message.consumers, message.ahead, message.keep_s)
        tensor = self._add(Entry(message.name, spec, blob, client, account, part, message.keep_s, message.key))
        if spec.is_stream or not size:
            if not size:
                self._end(tensor)
            self._answer(client, Granted(message.call, 0, 0))
        else:
            self._claims.add(Claim(client, message.call, tensor, size))

    def _claim(self, client: int, message: ClaimChunk) -> None:
        tensor = self._own(client, message.name)
        if not tensor.spec.is_stream or message.index != tensor.claimed:
            raise BadPieceError(f"chunk {message.index} of {message.name} is not the next to be claimed")
        check_rows(tensor.spec, message.size, self._settings.chunk_bytes)
        self._claims.check(message.size)
        self._claims.add(Claim(client, message.call, tensor, message.size))
        tensor.claimed += 1

    def _commit(self, client: int, message: CommitChunk) -> None:
        tensor = self._own(client, message.name)
        due = tensor.granted[0] if tensor.granted else None
        if due is None or message.index != tensor.committed or message.size != due.size:
            tensor.blob.happen(Event.WITHDRAW)  # nobody knows any more what its chunks are
            raise BadPieceError(
                f"chunk {message.index} of {message.size} bytes of {message.name} is not the one that is due: "
                f"{tensor.committed} of {due.size if due else 0}"
            )
        if not self._clients[client].holds(due):
            # others may write there by now: its tensor must not count it, nor free it again
            tensor.blob.happen(Event.WITHDRAW)
            raise BadPieceError(f"chunk {message.index} of {message.name} was released before it was committed")
        tensor.blob.commit(due)  # takes over the producer's hold
        self._keep(tensor)
        tensor.granted.popleft()
        tensor.committed += 1
        self._clients[client].release(due, to_tensor=True)
        if tensor.key is not None:
            self.slab.hold(due)
            tensor.kept.append(due)
        if not tensor.spec.is_stream and not tensor.granted:
            self._end(tensor)
        self._answer(client, Accepted(message.call))

    def _end(self, tensor: Entry) -> None:
        if tensor.granted or self._claims.has(tensor):
            tensor.blob.happen(Event.WITHDRAW)
            raise BadPieceError(f"{tensor.name} ends before its last chunk is committed")
        if tensor.key is not None and self.kept.add(tensor.key, Rows(tensor.spec, tensor.part, tuple(tensor.kept))):
            tensor.kept = []
        tensor.blob.happen(Event.END)
        self._forget_kept(tensor)

    def _adopt(self, client: int, message: AdoptTensor) -> None:
        if (rows := self.kept.find(message.key)) is None:
            self._answer(client, Adopted(message.call, None))
            return
        blob = self._blob(message.consumers, len(rows.chunks), message.keep_s)
        account = self._clients[client].account
        self._add(Entry(message.name, rows.spec, blob, client, account, rows.part, message.keep_s))
        for extent in rows.chunks:
            self.slab.hold(extent)
            blob.commit(extent)
        blob.happen(Event.END)
        self._answer(client, Adopted(message.call, rows.spec))

    def _take(self, client: int, message: TakeChunk) -> None:
        name = self._local_name(message.name, message.source)
        if message.source is not None:
            self.pull(message.name, message.source, message.consumers, message.wait_s)
        self._touched.add(name)
        wait = WaitingTake(client, message.call, message.consumer, message.index, self._now_s + message.wait_s)
        self._takes.setdefault(name, []).append(wait)

    # What follows from it.

    def _settle(self) -> None:
        """Gives chunks and memory to those who waited for them, and forgets what is over."""
        touched, self._touched = self._touched, set()
        for name in touched:
            waiting = self._takes.get(name, [])
            if (tensor := self._tensors.get(name)) is not None:
                waiting[:] = [wait for wait in waiting if not self._serve(tensor, wait)]
                if tensor.blob.state not in (State.OPEN, State.COMPLETE):
                    self._forget_kept(tensor)
                if tensor.blob.is_over:
                    del self._tensors[name]
            if not waiting:
                self._takes.pop(name, None)
        self._grant()
        self.has_changed = self.has_changed or bool(touched)

    def _grant(self) -> None:
        for claim, found in self._claims.settled():
            if isinstance(found, TransferError):
                self._answer(claim.client, TensorRefused(claim.call, fault_of(found), str(found)))
                continue
            claim.tensor.granted.extend(found)
            for extent in found:
                self._clients[claim.client].hold(extent, is_granted=True)
            self._answer(claim.client, Granted(claim.call, found[0].offset, claim.size))

    def _serve(self, tensor: Entry, wait: WaitingTake) -> bool:
        """Answers a consumer that waits; False while there is no answer."""
        try:
            extent = tensor.blob.take(wait.consumer, self._clients[wait.client], wait.index, wait.index)
        except TransferError as error:
            self._answer(wait.client, TensorRefused(wait.call, fault_of(error), str(error)))
            return True
        if extent is not None:
            self._clients[wait.client].hold(extent)
            self._keep(tensor)
            tensor.blob.acknowledge(wait.consumer, wait.index + 1)
            chunks = 0 if tensor.spec.is_stream else -(-spec_bytes(tensor.spec) // tensor.part)
            self._answer(wait.client, ChunkHere(wait.call, tensor.spec, chunks, extent.offset, extent.size))
        elif tensor.blob.state is not State.OPEN:
            self._answer(wait.client, TensorEnded(wait.call, tensor.spec))
        else:
            return False
        return True

    def _forget_kept(self, tensor: Entry) -> None:
        """Chunks that were held for a key which was not to be."""
        for extent in tensor.kept:
            self.slab.drop(extent)
        tensor.kept = []

    def _add(self, tensor: Entry) -> Entry:
        if tensor.name in self._tensors:
            raise BadPieceError(f"tensor {tensor.name} is there already")
        if len(self._tensors) >= self._settings.max_tensors:
            raise StoreFullError(f"there are {self._settings.max_tensors} tensors already")
        self._tensors[tensor.name] = tensor
        return tensor

    def _own(self, client: int, name: str) -> Entry:
        """The tensor that this client is writing. Raises BadPieceError, and BlobGoneError where nobody wants it now."""
        tensor = self._of(client, name)
        if tensor.blob.state is State.COMPLETE:
            raise BadPieceError(f"tensor {name} is complete")
        return tensor

    def _of(self, client: int, name: str) -> Entry:
        """The tensor that this client made. Raises BadPieceError, and BlobGoneError where it is over."""
        if (tensor := self._tensors.get(name)) is None:
            raise BlobGoneError(f"tensor {name} is not there (any more)")
        if tensor.producer != client:
            raise BadPieceError(f"tensor {name} is not of who asks")
        return tensor

    def _blob(self, consumers: int, ahead: int, keep_s: float) -> Blob[Extent]:
        return Blob(consumers, ahead, self._now_s + keep_s, self.slab.drop)

    def _keep(self, tensor: Entry) -> None:
        """Moves its deadline, since a chunk of it was written or taken."""
        tensor.blob.extend(self._now_s + tensor.keep_s)

    def _local_name(self, name: str, source: SidecarAddress | None) -> str:
        """What is pulled from elsewhere has a name that no process here can choose."""
        return name if source is None or source == self.address else f"{source.host}:{source.port}/{name}"

    def _answer(self, client: int, answer: ToTensorClient) -> None:
        self.answers.append((client, answer))
