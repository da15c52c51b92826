"""Processes of a node: what is kept of what they say."""

import asyncio
import sys

from agents.node.child import Child


def test_why_a_process_ended_and_its_last_lines_are_kept() -> None:
    program = (
        "import sys; [print(f'2026-01-01 12:00:00 INFO own line {n}', file=sys.stderr) for n in range(50)]; exit(3)"
    )

    async def scenario() -> tuple[str, tuple[str, ...]]:
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        child = await Child.start("ears", (sys.executable, "-c", program), ended.set_result)
        assert not child.is_over
        async with asyncio.timeout(60):
            reason = await ended
        assert child.is_over
        return reason, child.last_words

    reason, lines = asyncio.run(scenario())
    assert "status 3" in reason
    assert lines[-1] == "line 49"
    assert [int(line.removeprefix("line ")) for line in lines] == list(range(50 - len(lines), 50))
