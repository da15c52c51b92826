"""Log-probabilities of an answer's tokens, as chats and responses say them."""

from collections.abc import Iterable
from typing import Any

from control.gateway.reply import Piece
from control.gateway.tokenizer import Tokenizer


def token_logprobs(tokenizer: Tokenizer, pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """One object a token, with its alternatives; none where they were not asked for."""
    return [
        _token(tokenizer, token, entry.chosen) | {"top_logprobs": [_token(tokenizer, *other) for other in entry.top]}
        for piece in pieces
        for token, entry in zip(piece.ids, piece.logprobs, strict=False)
    ]


def _token(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    text = tokenizer.token_text(token)
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
