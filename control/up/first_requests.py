"""First requests to what `medley up` serves, as commands to be copied."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

KEY = "$KEY"
"""Stands for the key in them."""
_LONGEST = 64
"""Tokens of the first answer: small models tell on and on, and small nodes take half a second for each."""
_AUTHORISED = f" \\\n  -H 'Authorization: Bearer {KEY}'"


def first_requests(models: Sequence[str], apps: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return a request to the first of some text models, and one of each type to each app: path and options of curl,
    the first behind `/v1`. `apps`: name → request types."""
    text = [_chat(models[0], '"What is the capital of France?"')] if models else []
    return (*text, *(ask for name, kinds in apps.items() for kind in kinds for ask in _asked(name, kind)))


def _asked(app: str, kind: str) -> Iterator[str]:
    """Yield nothing for a type that no file on this machine goes with."""
    if kind == "audio-to-text":
        yield f"/audio/transcriptions{_AUTHORISED} \\\n  -F model={app} -F file=@SPEECH.wav"
    elif kind == "text-to-audio":
        yield _posted("audio/speech", f'{{"model": "{app}", "input": "Hello."}}', "speech.wav")
    elif kind == "text-to-image":
        yield _posted("images/generations", f'{{"model": "{app}", "prompt": "a red circle"}}', "picture.json")
    elif kind == "text-to-text":
        yield _chat(app, '"What is the capital of France?"')
    elif kind == "image-text-to-text":
        picture = '{"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}'
        yield _chat(app, f'[{picture}, {{"type": "text", "text": "What is it?"}}]')


def _chat(model: str, content: str) -> str:
    how = f'"max_tokens": {_LONGEST}, "temperature": 0, "stream": true'
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": {content}}}], {how}}}'
    return _posted("chat/completions", body)


def _posted(path: str, body: str, file: str = "") -> str:
    """`file`: that the answer goes to, which is nothing to be read in a terminal."""
    kept = f" -o {file}" if file else ""
    return f"/{path}{_AUTHORISED} \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'{kept}"
