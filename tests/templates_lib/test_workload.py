import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates_lib.load.workload import WorkloadShape, split_prompts

lengths = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 2000)), min_size=1, max_size=40)


def shape_of(pairs: list[tuple[int, int]]) -> WorkloadShape:
    prompt, output = zip(*pairs, strict=True)
    return WorkloadShape("s", np.array(prompt, np.int32), np.array(output, np.int32))


@given(lengths)
def test_contexts_equal_a_count_token_by_token(pairs: list[tuple[int, int]]) -> None:
    shape = shape_of(pairs[:4])
    seen = [i for prompt, _ in pairs[:4] for i in range(prompt)]
    cached = [prompt + i for prompt, output in pairs[:4] for i in range(output)]
    assert shape.prefill_context == pytest.approx(np.mean(seen))
    assert shape.decode_context == pytest.approx(np.mean(cached))


@given(lengths, st.integers(0, 5000))
def test_a_split_keeps_every_request_on_its_side(pairs: list[tuple[int, int]], limit: int) -> None:
    shape = shape_of(pairs)
    split = split_prompts(shape, limit)
    parts = [p for p in (split.short, split.long) if p is not None]
    both = [pair for p in parts for pair in zip(p.prompt_tokens.tolist(), p.output_tokens.tolist(), strict=True)]
    assert sorted(both) == sorted(pairs)
    if limit:
        assert split.short is None or split.short.prompt_tokens.max() <= limit
        assert split.long is None or split.long.prompt_tokens.min() > limit
    assert split.long_share == pytest.approx(len(split.long.prompt_tokens) / len(pairs) if split.long else 0)


def test_no_limit_leaves_the_shape_alone() -> None:
    shape = shape_of([(10, 5), (9000, 5)])
    assert split_prompts(shape, 0).short is shape
    assert split_prompts(shape, 9000).short is shape


def test_the_fingerprint_follows_the_lengths_and_nothing_else() -> None:
    shape = shape_of([(100, 10), (300, 30)])
    renamed = WorkloadShape("other", shape.prompt_tokens.astype(np.int64), shape.output_tokens, "elsewhere")
    assert renamed.fingerprint == shape.fingerprint
    assert shape_of([(100, 10), (300, 31)]).fingerprint != shape.fingerprint


@pytest.mark.parametrize(
    ("prompt", "output", "problem"),
    [([], [], "non-empty"), ([1, 2], [1], "equally long"), ([0], [4], "at least one token")],
)
def test_lengths_that_are_no_shape_are_refused(prompt: list[int], output: list[int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        WorkloadShape("bad", np.array(prompt, np.int32), np.array(output, np.int32))
