"""Secrets stay hidden; a CURVE public key is told from what is none."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.access.api_token import read, written
from control.access.secret import Secret, new_secret
from control.db.agent_keys import is_public_key

zmq = pytest.importorskip("zmq")


def test_a_secret_is_shown_nowhere_by_accident() -> None:
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r}", f"{[secret]}", f"{ ({'k': secret}) }"]
    try:
        raise ValueError(secret)
    except ValueError as error:
        shown.append("".join(traceback.format_exception(error)))
    assert not any("hunter2" in text for text in shown)
    assert secret.reveal() == "hunter2"


def test_a_secret_is_known_by_its_digest_only_whole() -> None:
    secret = new_secret()
    assert secret.has(secret.digest())
    assert secret.reveal().encode() not in secret.digest()
    for wrong in (new_secret(), Secret(""), Secret(secret.reveal()[:-1]), Secret(secret.reveal() + "0")):
        assert not wrong.has(secret.digest())


def test_no_two_secrets_are_the_same() -> None:
    assert len({new_secret().reveal() for _ in range(100)}) == 100


def test_an_api_token_is_read_as_it_was_written() -> None:
    secret = new_secret()
    token = written("0123456789ab", secret)
    assert token.reveal().startswith("medley_0123456789ab_")
    assert read(token) == ("0123456789ab", secret)


@given(st.text())
def test_no_other_text_is_an_api_token(text: str) -> None:
    assert read(Secret(text)) is None


def test_keys_that_zeromq_makes_are_public_keys() -> None:
    for _ in range(50):
        public, _secret = zmq.curve_keypair()
        assert is_public_key(public.decode())


@given(st.binary(min_size=32, max_size=32))
def test_every_32_bytes_but_nobodys_are_a_public_key(content: bytes) -> None:
    from zmq.utils import z85

    assert is_public_key(z85.encode(content).decode()) == any(content)


@given(st.text(max_size=60))
def test_what_zeromq_cannot_decode_is_no_public_key(text: str) -> None:
    from zmq.utils import z85

    if is_public_key(text):
        assert len(z85.decode(text.encode())) == 32


def test_a_word_beyond_32_bits_is_no_public_key() -> None:
    assert not is_public_key("#" * 40)
