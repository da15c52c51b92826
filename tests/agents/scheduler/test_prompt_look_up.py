"""Look-ups find what stood behind the last tokens the last time, and what is wrong is not drafted again and again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.scheduler.prompt_look_up import DraftTrust, as_characters, look_up


def slowly(text: list[int], ngram: int, most: int) -> tuple[int, ...]:
    """The same, token by token."""
    for start in reversed(range(max(0, len(text) - ngram))):
        if text[start : start + ngram] == text[-ngram:]:
            drafted = list(text)
            for n in range(most):
                drafted.append(drafted[start + ngram + n])
            return tuple(drafted[len(text) :])
    return ()


def test_what_stood_behind_the_last_tokens_is_drafted():
    text = as_characters([7, 1, 2, 3, 4, 5, 9, 1, 2, 3, 8, 6, 0, 1, 2, 3])
    assert look_up(text, 3, 2) == (8, 6), "the last time counts"
    assert look_up(text, 3, 9) == (8, 6, 0, 1, 2, 3, 8, 6, 0), "a text that ends goes on with itself"
    assert look_up(text, 4, 2) == ()
    assert look_up(as_characters([5, 5]), 1, 3) == (5, 5, 5)
    assert look_up(as_characters([5, 5]), 2, 3) == look_up("", 1, 3) == ()


@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(st.sampled_from([0, 1, 0xD800, 0xDC00, 0x10000, 0x10FFFF]), max_size=40),
    ngram=st.integers(1, 4),
    most=st.integers(1, 9),
)
def test_a_look_up_in_characters_is_one_in_tokens(text: list[int], ngram: int, most: int):
    """All that a vocabulary may have, surrogates of UTF-16 as well, of which two make no other character."""
    assert look_up(as_characters(text), ngram, most) == slowly(text, ngram, most)


def test_drafts_that_are_wrong_get_short_and_rest_and_grow_when_they_are_right():
    trust = DraftTrust()
    first = trust.most_behind(10)
    trust.learn(0, 11)
    assert trust.most_behind(11) == 1
    trust.learn(0, 12)
    assert trust.most_behind(12) == trust.most_behind(14) == 0
    later = next(tokens for tokens in range(12, 100) if trust.most_behind(tokens))
    assert trust.most_behind(later) == 1
    for right in (1, 2, 4, 8, 16):
        trust.learn(right, later)
    assert trust.most_behind(later) == first
