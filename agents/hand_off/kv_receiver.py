"""The receiving end of a link: a thread that takes chunks into the inbox and acknowledges them."""

import logging
import threading
from collections import deque
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.pair import RECEIVER
from agents.engines.errors import EngineError
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.hand_off.chunk import BadChunkError, ChunkHeader
from agents.hand_off.frame import Frame
from agents.hand_off.kv_inbox import KvInbox
from agents.hand_off.link_end import UNHEARD_ANSWERS, LinkEnd, LinkLostError
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink

_log = logging.getLogger(__name__)

_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16, torch.float16)}


class KvReceiver:
    """Where the link breaks the thread ends; the sending end asks for another one."""

    def __init__(self, facts: StageFacts, inbox: KvInbox, device: Any, settings: HandOffSettings) -> None:
        self._facts = facts
        self._inbox = inbox
        self._device = device
        self._settings = settings
        self._taking = threading.Lock()
        """Held while a chunk is taken: one of a former epoch must not come between."""
        self._changing = threading.Lock()
        """Held for a moment, while the two below change."""
        self._epoch = -1
        self._end: LinkEnd | None = None

    def open(self, order: OpenKvLink) -> None:
        self._change(order.epoch, None)
        threading.Thread(target=self._run, args=(order,), name=f"kv-in {order.link}", daemon=True).start()

    def close(self) -> None:
        self._change(-1, None)

    def _change(self, epoch: int, end: LinkEnd | None) -> None:
        with self._changing:
            before, self._epoch, self._end = self._end, epoch, end
        if before is not None:
            before.close()

    def _run(self, order: OpenKvLink) -> None:
        at = (order.rendezvous_host, order.rendezvous_port)
        end: LinkEnd | None = None
        try:
            dtype = _DTYPES[order.sender_dtype]
            end = LinkEnd(f"{order.link} {order.epoch}", RECEIVER, at, self._device, self._settings)
            with self._changing:
                if self._epoch == order.epoch:
                    self._end = end
            frames = [Frame(self._settings.chunk_bytes) for _ in range(self._settings.lanes)]
            asked = deque((end.ask_chunk(frame.whole), frame) for frame in frames)
            answers: deque[tuple[Work, torch.Tensor]] = deque()
            while self._epoch == order.epoch:
                work, frame = asked.popleft()
                end.finish(work, is_due=False)
                header = frame.header()
                is_wanted = self._take(order, header, self._kv(frame, header.part, dtype))
                asked.append((end.ask_chunk(frame.whole), frame))
                if not header.wants_answer:
                    continue
                answer = torch.tensor((header.run, header.index, int(is_wanted)))
                answers.append((end.send_answer(answer), answer))
                if len(answers) > UNHEARD_ANSWERS:
                    end.finish(answers.popleft()[0])
        except (LinkLostError, BadChunkError, EngineError, KeyError) as error:
            if self._epoch == order.epoch:
                _log.warning("link %s broke: %s", order.link, error)
        finally:
            if end is not None:
                end.close()

    def _take(self, order: OpenKvLink, header: ChunkHeader, kv: torch.Tensor) -> bool:
        """Whether more of the run is wanted."""
        with self._taking:
            if self._epoch != order.epoch:
                raise LinkLostError("connected anew meanwhile")
            return self._inbox.take(order.link, header, kv, self._settings.stall_s)

    def _kv(self, frame: Frame, part: KvPart, dtype: torch.dtype) -> torch.Tensor:
        if part.heads != self._facts.kv_heads:
            raise BadChunkError(f"a chunk of {part.heads} KV heads, of {self._facts.kv_heads}")
        return frame.kv(part, self._facts, dtype)
