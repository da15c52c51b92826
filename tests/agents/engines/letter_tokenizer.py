"""A tokenizer of single letters, few enough for the smallest models: text that a grammar allows can be spelled."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LETTERS = [*(chr(code) for code in range(0x20, 0x7F)), "\n"]
SPACE, NEWLINE, END = 0, len(LETTERS) - 1, len(LETTERS)
"""Tokens."""


def letter_tokenizer(folder: Path, template: str = "") -> Path:
    """Writes the tokenizer, whose `<end>` ends an answer, and a chat template, into a folder that is there."""
    shown = ["Ġ", *LETTERS[1:-1], "Ċ", "<end>"]  # byte-level vocabularies show white space so
    tokenizer = Tokenizer(models.BPE(vocab={text: n for n, text in enumerate(shown)}, merges=[]))
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    if template:
        (folder / "chat_template.jinja").write_text(template)
    return folder
