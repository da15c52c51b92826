"""`python -m control.cloud.skypilot.sdk`: answers calls from the standard input, side by side, until that ends."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from control.cloud.skypilot.messages import Numbered, NumberedReply, line
from control.cloud.skypilot.sdk.calls import answer

_AT_ONCE = 64
"""Most of them wait for a machine to boot."""


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # SkyPilot prints; its words are the log's
    turn = threading.Lock()

    def work(numbered: Numbered) -> None:
        reply = line(NumberedReply(numbered.number, answer(numbered.call)))
        with turn:
            answers.write(reply)

    pool = ThreadPoolExecutor(_AT_ONCE)
    for text in sys.stdin.buffer:
        pool.submit(work, msgspec.json.decode(text, type=Numbered))
    os._exit(0)  # nobody waits for what is under way; its outcome is SkyPilot's to know


if __name__ == "__main__":
    main()
