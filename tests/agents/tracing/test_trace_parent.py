"""The `traceparent` header: what is taken, and what is made where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tracing.trace_parent import TraceParent, new_trace_parent, read_trace_parent

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_what_was_written_is_read_again():
    assert read_trace_parent(GOOD) == TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01")
    assert str(read_trace_parent(GOOD)) == GOOD
    made = new_trace_parent()
    assert read_trace_parent(str(made)) == made
    child = made.child()
    assert (child.trace_id, child.flags) == (made.trace_id, made.flags)
    assert child.span_id != made.span_id


def test_a_later_version_may_say_more():
    assert read_trace_parent("cc" + GOOD[2:] + "-what-comes") == read_trace_parent(GOOD)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        GOOD.upper(),
        GOOD[:-1],
        GOOD + "-more",
        "ff" + GOOD[2:],
        GOOD.replace("00f067aa0ba902b7", "0" * 16),
        GOOD + " ",
    ],
)
def test_what_is_no_trace_parent_is_none(bad: str):
    assert read_trace_parent(bad) is None


@given(st.text(max_size=300) | st.from_regex(r"[0-9a-f]{2}(-[0-9a-f]{32})(-[0-9a-f]{16})-[0-9a-f]{2}(-.*)?"))
def test_no_text_breaks_it(text: str):
    """What is read is what it says, as of the version that we write."""
    read = read_trace_parent(text)
    assert read is None or str(read) == f"00{text[2 : len(GOOD)]}"
