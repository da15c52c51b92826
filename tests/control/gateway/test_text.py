"""From tokens to a client's text: exactly once, whole characters, nothing beyond a stop string."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import TokenLogprobs, TokenRun
from control.gateway.chat_template import ChatTemplate, ChatTemplateError
from control.gateway.stop_strings import StopStrings
from control.gateway.token_order import TokenOrder
from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_error import TokenizerError
from control.gateway.tokenizer_source import load_tokenizer
from tests.control.gateway.world import byte_tokenizer

few = st.text("abc", max_size=6)


@given(st.lists(few, max_size=20), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_ends_just_before_the_first_stop_string_however_it_is_cut(pieces: list[str], stops: list[str]):
    """With several stops, pieces decide which is seen first: nothing of any may get out."""
    matcher, out = StopStrings(tuple(stops)), ""
    for piece in pieces:
        out += matcher.push(piece)
    out += matcher.flush()
    text = "".join(pieces)
    starts = [at for stop in stops if (at := text.find(stop)) >= 0]
    assert matcher.is_found == bool(starts)
    assert text.startswith(out)
    assert not any(stop in out for stop in stops)
    if len(stops) == 1 or not starts:
        assert out == (text[: starts[0]] if starts else text)


def test_only_what_may_begin_a_stop_string_is_held_back():
    matcher = StopStrings(("END", "xyz"))
    assert matcher.push("hello E") == "hello "
    assert matcher.push("NX") == "ENX"
    assert matcher.push("x") == ""
    assert matcher.flush() == "x"


runs = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=40)


@given(runs, st.randoms())
def test_every_token_comes_out_once_and_in_order(pieces: list[tuple[int, int]], random):
    whole = [TokenRun(1, seq, tuple(range(seq, seq + count))) for seq, count in pieces]
    cover = [TokenRun(1, seq, tuple(range(seq, min(seq + 3, 40)))) for seq in range(0, 40, 3)]
    arriving = whole + cover
    random.shuffle(arriving)
    order, out = TokenOrder(0), []
    for run in arriving:
        ids, _ = order.push(run)
        out += ids
    assert out == list(range(40))
    assert order.next_seq == 40
    assert not order.has_gap


def test_log_probabilities_stay_with_their_tokens_when_repeats_are_cut():
    order = TokenOrder(2)
    marks = [TokenLogprobs(-float(n), ()) for n in range(5)]
    ids, logprobs = order.push(TokenRun(1, 0, (0, 1, 2, 3), tuple(marks[:4])))
    assert (ids, logprobs) == ([2, 3], marks[2:4])
    assert order.push(TokenRun(1, 5, (5,))) == ([], [])
    assert order.has_gap


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(byte_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@given(st.text(max_size=40))
def test_streamed_text_is_the_text_and_never_half_a_character(bytewise: Tokenizer, text: str):
    stream = bytewise.open_stream()
    pieces = [stream.push(token) for token in bytewise.encode([text], is_rendered=False)[0]]
    assert "".join(pieces) + stream.flush() == text
    assert "�" not in "".join(pieces) or "�" in text


@settings(max_examples=50)
@given(st.lists(st.integers(0, 300), max_size=60))
def test_tokens_that_make_no_sense_are_text_of_some_kind(bytewise: Tokenizer, tokens: list[int]):
    """An engine may sample any id, also broken UTF-8 and ids beyond the vocabulary: what can be read gets through."""
    stream = bytewise.open_stream()
    text = "".join(stream.push(token) for token in tokens) + stream.flush()
    text.encode()
    readable = {n: one for n in range(256) if (one := bytewise.token_text(n)).isascii()}
    assert [letter for letter in text if letter.isascii()] == [readable[n] for n in tokens if n in readable]


def test_a_conversation_goes_through_the_models_own_template(bytewise: Tokenizer):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    assert bytewise.chat_template.render(messages) == "user:hi\nassistant:yo\n"
    assert bytewise.stop_ids == (256,)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for a in range(9999999) %}{% for b in range(9999999) %}{% endfor %}{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
        "{{ raise_exception('roles must alternate') }}",
        "{{ missing.attribute.deep }}",
    ],
)
def test_a_hostile_or_unhappy_template_is_an_error_not_a_way_in(source: str):
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source).render([{"role": "user", "content": "x"}])


def test_a_template_that_cannot_be_parsed_is_refused_at_once():
    with pytest.raises(ChatTemplateError, match="chat template"):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize("content", ["", "{", '{"model": 3}', "null"])
def test_a_broken_tokenizer_file_is_refused_by_name(tmp_path: Path, content: str):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(TokenizerError, match=str(tmp_path)):
        load_tokenizer(tmp_path)


def test_files_that_are_no_tokenizer_are_refused_by_name(tmp_path: Path):
    (tmp_path / "x.gguf").write_bytes(b"GGUFnot really")
    for path in (tmp_path / "x.gguf", tmp_path / "nothing", tmp_path):
        with pytest.raises(TokenizerError, match=str(path)):
            load_tokenizer(path)


def test_a_directory_without_extras_is_enough(tmp_path: Path):
    folder = byte_tokenizer(tmp_path / "plain")
    (folder / "tokenizer_config.json").unlink()
    tokenizer = load_tokenizer(folder)
    assert tokenizer.stop_ids == ()
    with pytest.raises(ChatTemplateError, match="no chat template"):
        tokenizer.chat_template.render([{"role": "user", "content": "x"}])


def test_stop_tokens_and_the_template_come_from_wherever_models_keep_them(tmp_path: Path):
    folder = byte_tokenizer(tmp_path / "listed")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 256]}))
    (folder / "chat_template.jinja").write_text("{{ eos_token }}!")
    tokenizer = load_tokenizer(folder)
    assert tokenizer.stop_ids == (3, 256)
    assert tokenizer.chat_template.render([{"role": "user", "content": "x"}]) == "<end>!"
