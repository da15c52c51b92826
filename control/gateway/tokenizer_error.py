"""The one error of loading a tokenizer."""


class TokenizerError(ValueError):
    """The files hold no tokenizer that can be used; the message names the file."""
