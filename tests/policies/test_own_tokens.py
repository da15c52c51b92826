"""The bound on tokens that a prefill instance makes of answers whose KV cache is on its way."""

import pytest

from policies.own_tokens import OWN_TOKENS_VARIABLE, goes_on, own_tokens_of


def test_the_environment_says_the_bound_and_nothing_is_off():
    assert own_tokens_of({}) == 0
    assert own_tokens_of({OWN_TOKENS_VARIABLE: "64"}) == 64


@pytest.mark.parametrize("said", ["65", "-1", "many", "1.5", ""])
def test_a_bound_that_no_message_holds_is_refused_by_name(said: str):
    with pytest.raises(ValueError, match=OWN_TOKENS_VARIABLE):
        own_tokens_of({OWN_TOKENS_VARIABLE: said})


def test_prompts_go_first_and_the_bound_is_one():
    assert goes_on(0, 1, 0)
    assert not goes_on(1, 1, 0)
    assert not goes_on(0, 16, 1)
    assert not goes_on(0, 0, 0)
