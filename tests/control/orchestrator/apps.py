"""Apps for tests of runs: code of workflows and services."""

from control.tasks.task_source import TaskSource

GOOD = '''
import asyncio
import os
import time

import medley_sdk as medley
from medley_sdk import CallName, model, service, workflow


@service
class Double:
    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]


@service(max_batch=8)
class Sizes:
    """Of its batches, none of which ends before there is its file."""

    def __call__(self, files: list[str]) -> list[int]:
        while not os.path.exists(files[0]):
            time.sleep(0.005)
        return [len(files)] * len(files)


@service(effects="external")
class Ledger:
    def __call__(self, files: list[str], lines: list[str], calls: list[CallName]) -> list[int]:
        for file, line, call in zip(files, lines, calls):
            with open(file, "a") as ledger:
                ledger.write(f"{line} {call.id}\\\\n")
        return [0] * len(lines)  # whichever calls of other runs it is computed with


@service(effects="external")
class Breaks:
    """After it has done something."""

    def __call__(self, files: list[str]) -> list[int]:
        for file in files:
            with open(file, "a") as ledger:
                ledger.write("done\\n")
        raise OSError("the answer is lost")


@service
class Faulty:
    def __call__(self, numbers: list[int]) -> list[int]:
        if 7 in numbers:
            os._exit(3)
        if 8 in numbers:
            return []
        raise ValueError("no such number")


@service
class Large:
    def __call__(self, sizes: list[int]) -> list[bytes]:
        return [bytes(size) for size in sizes]


@service
class Length:
    def __call__(self, texts: list[bytes]) -> list[int]:
        return [len(text) for text in texts]


def reach(port: int) -> dict[str, str]:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        network = "reached"
    except OSError as error:
        network = type(error).__name__
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            parent = str(len(file.read()))
    except OSError as error:
        parent = type(error).__name__
    return {"network": network, "parent": parent, "environment": ",".join(sorted(os.environ))}


@service
class Says:
    """What its process may do."""

    def __call__(self, hosts: list[int]) -> list[dict[str, str]]:
        return [reach(hosts[0])]


@service(network=True)
class Reaches(Says.made_of):
    pass


@workflow
async def doubled(start: int, times: int = 3) -> int:
    value = start
    for _ in range(times):
        value = Double(value)
    return await value


@workflow
async def fanned(file: str, width: int) -> list[int]:
    sizes = [Sizes(file) for _ in range(width)]
    medley.emit("all are called")
    return await medley.gather(*sizes)


@workflow
async def noted(file: str, lines: list[str]) -> list[int]:
    return [await Ledger(file, line) for line in lines]


@workflow
async def breaks(file: str) -> int:
    return await Breaks(file)


@workflow
async def depends() -> int:
    return await Double(medley.signal("number", of=int))


@workflow
async def pairs() -> dict[tuple[int, int], str]:
    return {(1, 2): "a"}


@workflow
async def approved(file: str) -> str:
    medley.emit({"asked": "may I?"})
    answer = await medley.signal("approved", timeout_s=3600, of=bool)
    if not answer:
        return "refused"
    await Ledger(file, "approved")
    return "done"


@workflow
async def late(seconds: float) -> str:
    answer = await medley.signal("never", timeout_s=seconds)
    await medley.sleep(seconds)
    return f"nobody said {answer}"


@workflow
async def careful(number: int) -> str:
    try:
        await Faulty(number)
    except medley.CallError as error:
        return str(error)
    return "no error"


@workflow
async def careless(number: int) -> int:
    return await Double(Faulty(number))


@workflow
async def large(size: int) -> list[int]:
    made = Large(size)
    return [await Length(made), len(await made)]


@workflow
async def tells(sizes: list[int]) -> None:
    for size in sizes:
        medley.emit(Large(size))


@workflow(durable=False)
async def light(start: int) -> int:
    return await Double(Double(start))


@workflow(deadline_s=0.3)
async def too_late() -> None:
    await medley.signal("never")


@workflow
async def asks(question: str) -> str:
    first = model("echo-1")(question, max_tokens=8)
    second = model("echo-1")([{"role": "user", "content": first}], max_tokens=8)
    return (await second).text


@workflow(max_usd=0.001)
async def saves(question: str) -> str:
    answers = []
    try:
        while True:
            answers.append((await model("echo-1")(question, max_tokens=8)).text)
    except medley.BudgetError:
        return f"{len(answers)} answers"


@workflow(max_usd=0.001)
async def spends(question: str) -> None:
    while True:
        await model("echo-1")(question, max_tokens=8)


@workflow
async def unknown_model() -> str:
    return (await model("echo-2")("hello")).text


@workflow
async def isolated(port: int) -> list[dict[str, str]]:
    return [reach(port), await Says(port), await Reaches(port)]


@workflow
async def has_no_end() -> None:
    while True:
        pass


TWELVE = 12


@workflow
async def twelve(file: str, pause: float = 0.0) -> int:
    """Calls of every kind, 12 in all; four of them have effects."""
    first = Double(1)
    notes = [Ledger(file, "a"), Ledger(file, "b")]
    total = await Double(first)
    await medley.sleep(pause)
    values = await medley.gather(*(Double(number) for number in range(3)), *notes)
    total += sum(values[:3])
    medley.emit(total)
    note = await Ledger(file, "c")
    total += await Double(note)
    return total + await Ledger(file, "d")
'''.replace("\\\\n", "\\n")


def source(text: str = GOOD, file: str = "app.py") -> TaskSource:
    return TaskSource(file, text)
