"""Loads a tokenizer from a model's files: a Hugging Face directory (`tokenizer.json`) or a GGUF file."""

from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer as HfTokenizer

from control.gateway.chat_template import ChatTemplate, ChatTemplateError
from control.gateway.embedder import read_embedder
from control.gateway.gguf_tokenizer import load_gguf
from control.gateway.sampling_defaults import sampling_defaults
from control.gateway.tokenizer import Tokenizer, TokenizerFiles
from control.gateway.tokenizer_error import TokenizerError


def load_tokenizer(path: Path) -> Tokenizer:
    """Takes seconds for large vocabularies. Raises TokenizerError with the file's name and what is wrong."""
    try:
        return load_gguf(path) if path.is_file() else _load_directory(path)
    except (TokenizerError, ChatTemplateError, OSError, ValueError, msgspec.MsgspecError) as error:
        raise TokenizerError(f"tokenizer {path}: {error}") from error


def _load_directory(path: Path) -> TokenizerFiles:
    file = path / "tokenizer.json"
    if not file.is_file():
        raise TokenizerError("neither a GGUF file nor a directory with tokenizer.json")
    try:
        tokenizer = HfTokenizer.from_file(str(file))
    except Exception as error:  # the Rust side raises bare Exception
        raise TokenizerError(f"{file.name}: {error}") from error
    config = _json(path / "tokenizer_config.json")
    special = {name: _token_text(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    generation = _json(path / "generation_config.json")
    stop = generation.get("eos_token_id") or tokenizer.token_to_id(special["eos_token"])
    stop_ids = tuple(stop) if isinstance(stop, list) else (stop,) if isinstance(stop, int) else ()
    template = path / "chat_template.jinja"
    source = template.read_text() if template.is_file() else _default_template(config.get("chat_template"))
    chat = ChatTemplate(source, special) if source else ChatTemplate.missing()
    defaults, embedder = sampling_defaults(generation), read_embedder(path)
    return TokenizerFiles(tokenizer, stop_ids, chat_template=chat, sampling_defaults=defaults, embedder=embedder)


def _json(path: Path) -> dict[str, Any]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.is_file() else {}


def _token_text(value: Any) -> str:
    """A special token is a string, or an object that holds one."""
    return str(value.get("content", "")) if isinstance(value, dict) else str(value or "")


def _default_template(value: Any) -> str:
    """One template, or several by name of which `default` is the one."""
    if isinstance(value, list):
        return next((str(entry.get("template")) for entry in value if entry.get("name") == "default"), "")
    return str(value or "")
