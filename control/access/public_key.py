"""CURVE public keys as text: 32 bytes in Z85, 40 characters (ZeroMQ RFC 32)."""

_LENGTH = 40
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = {letter: value for value, letter in enumerate(_ALPHABET)}


def is_public_key(text: str) -> bool:
    """Whether `text` encodes 32 bytes that are not all zero (which would be nobody's key)."""
    if len(text) != _LENGTH or any(letter not in _DIGIT for letter in text):
        return False
    words = [_word(text[start : start + 5]) for start in range(0, _LENGTH, 5)]
    return all(word < 2**32 for word in words) and any(words)


def _word(letters: str) -> int:
    value = 0
    for letter in letters:
        value = value * 85 + _DIGIT[letter]
    return value
