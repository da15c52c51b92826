"""Lines for people."""

from control.up.steps import Steps


def test_lines_that_nobody_can_read_stop_nothing() -> None:
    said: list[str] = []

    def closed(line: str) -> None:
        said.append(line)
        raise BrokenPipeError

    steps = Steps(closed)
    with steps.step("plan") as done:
        done.text = "one instance"
    steps.say("ready")
    assert said[0].startswith("plan       one instance")
    assert said[1] == "ready"
