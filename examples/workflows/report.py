"""A report on some texts, which a person approves before it is filed. It runs without a gateway too: then the sentence
that a model would write is left out.

    medley dev examples/workflows/report.py:report -a '{"texts": ["one two", "two three"], "file": "/tmp/filed"}' \
        --signal 'approved=true'

    medley workflows push examples/workflows/report.py
    medley workflows run report -a '{"texts": ["one two", "two three"], "file": "/tmp/filed"}' --no-wait
    medley signal RUN approved true
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import medley_sdk as medley


@dataclass
class Words:
    count: int
    most: str


@medley.service(max_batch=16)
class Count:
    """Computes a batch of texts at once, whichever runs they come from."""

    def __call__(self, texts: list[str]) -> list[Words]:
        found = [Counter(text.split()) for text in texts]
        return [Words(counted.total(), (counted.most_common(1) or [("", 0)])[0][0]) for counted in found]


@medley.service(effects="external")
class File:
    """Appends a line: started once at the most, whatever dies. The call's name is the same whenever it is looked up."""

    def __call__(self, files: list[str], lines: list[str], calls: list[medley.CallName]) -> list[str]:
        for file, line, call in zip(files, lines, calls, strict=True):
            with Path(file).open("a") as filed:
                filed.write(f"{call.id} {line}\n")
        return [call.id for call in calls]


@medley.workflow(max_usd=0.05, max_calls=100)
async def report(texts: list[str], file: str, model: str | None = None) -> str:
    counts = await medley.gather(*(Count(text) for text in texts))
    line = f"{len(texts)} texts, {sum(each.count for each in counts)} words"
    if model is not None:
        question = f"In one short sentence: what may a text be about whose most frequent word is {counts[0].most!r}?"
        line += f": {(await medley.model(model)(question, max_tokens=32)).text}"
    medley.emit({"approve": line})
    if not await medley.signal("approved", timeout_s=86_400, of=bool):
        return "not filed"
    try:
        return f"filed as {await File(file, line)}"
    except medley.UncertainCallError:
        return "perhaps filed: look"
