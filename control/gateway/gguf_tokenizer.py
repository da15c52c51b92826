"""The tokenizer that a GGUF file carries: byte-level BPE, the kind of Llama 3, Qwen and SmolLM."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as HfTokenizer

from control.gateway.chat_template import ChatTemplate
from control.gateway.embedder import embedder_of_gguf
from control.gateway.sampling_defaults import sampling_defaults
from control.gateway.tokenizer import TokenizerFiles
from control.gateway.tokenizer_error import TokenizerError
from templates_lib.models.gguf_metadata import read_metadata

_CONTROL = 3
"""Token type of what is never text (gguf.TokenType.CONTROL)."""

_SAMPLING = {
    "temperature": "general.sampling.temp",
    "top_p": "general.sampling.top_p",
    "top_k": "general.sampling.top_k",
    "min_p": "general.sampling.min_p",
    "repetition_penalty": "general.sampling.penalty_repeat",
}
"""Names in `generation_config.json` → those that llama.cpp's converter gives them."""

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)


def _split(pattern: str) -> list[Any]:
    return [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]


_SPLITS: dict[str, list[Any]] = {
    "gpt-2": [_BYTES],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), _BYTES],
    "llama-bpe": _split(_LLAMA3),
    "qwen2": _split(_QWEN2),
}
"""How text is cut before merging, by `tokenizer.ggml.pre` (llama.cpp, llama_vocab: pre-tokenizer types)."""


def load_gguf(path: Path) -> TokenizerFiles:
    """Raises TokenizerError for kinds that are not byte-level BPE, OSError, and ValueError for what is no such file."""
    metadata = read_metadata(path)

    def value(name: str, default: Any = None) -> Any:
        return metadata.get(name, default)

    kind, cut = value("tokenizer.ggml.model"), value("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or cut not in _SPLITS:
        raise TokenizerError(f"tokenizer kind {kind!r} / {cut!r} is unknown; known are gpt2 / {', '.join(_SPLITS)}")
    tokens: list[str] = value("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in value("tokenizer.ggml.merges", [])]
    tokenizer = HfTokenizer(models.BPE(vocab={text: n for n, text in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_SPLITS[cut])
    tokenizer.decoder = decoders.ByteLevel()
    types = value("tokenizer.ggml.token_type", [])
    control = [tokens[n] for n, kind in enumerate(types) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    bos, eos = value("tokenizer.ggml.bos_token_id"), value("tokenizer.ggml.eos_token_id")
    names = {"bos_token": tokens[bos] if bos is not None else "", "eos_token": tokens[eos] if eos is not None else ""}
    source = value("tokenizer.chat_template")
    return TokenizerFiles(
        tokenizer,
        stop_ids=(eos,) if eos is not None else (),
        bos_ids=(bos,) if bos is not None and value("tokenizer.ggml.add_bos_token", False) else (),
        chat_template=ChatTemplate(source, names) if source else ChatTemplate.missing(),
        sampling_defaults=sampling_defaults({name: value(key) for name, key in _SAMPLING.items()}),
        embedder=embedder_of_gguf(metadata),
    )
