"""Bodies of `multipart/form-data` (RFC 7578), as clients send files: split, and nothing of them copied twice."""

from dataclasses import dataclass
from email.message import Message

from control.gateway.api_error import ApiError, bad_request

_MOST_PARTS = 64
_MOST_HEAD = 4096
"""Bytes of a part's headers."""
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class FormPart:
    name: str
    data: bytes
    is_file: bool


def form_parts(body: bytes, content_type: str) -> tuple[FormPart, ...]:
    """Raises ApiError 400 for what is no form, or a damaged one."""
    kind, about = _parameters(content_type)
    if kind != "multipart/form-data":
        raise bad_request("Send a form: `content-type: multipart/form-data`")
    boundary = about.get("boundary", "")
    if not 1 <= len(boundary) <= 70:
        raise bad_request("The form's content type names no boundary between its parts")
    line = b"--" + boundary.encode("latin-1", "replace")
    if not body.startswith(line):
        raise _damaged("it does not begin with its boundary")
    found: list[FormPart] = []
    at = len(line)
    while body[at : at + 2] != b"--":
        if len(found) == _MOST_PARTS:
            raise bad_request(f"A form has at most {_MOST_PARTS} parts")
        head, end = body.find(_END, at, at + _MOST_HEAD), body.find(b"\r\n" + line, at)
        if head < 0 or end < head:
            raise _damaged("a part has no headers, or no end")
        found.append(_part(body[at + 2 : head], body[head + len(_END) : end]))
        at = end + 2 + len(line)
    return tuple(found)


def _part(head: bytes, data: bytes) -> FormPart:
    """Raises ApiError."""
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        kind, about = _parameters(value) if key.strip().lower() == "content-disposition" else ("", {})
        if kind == "form-data" and "name" in about:
            return FormPart(about["name"], data, "filename" in about)
    raise _damaged("a part has no name")


def _parameters(value: str) -> tuple[str, dict[str, str]]:
    """The kind that a header states, in small letters, and its parameters."""
    header = Message()
    header["content-type"] = value.replace("\r", " ").replace("\n", " ")
    (kind, _), *found = header.get_params(failobj=[("", "")])
    return kind.lower(), {key.lower(): text for key, text in found if isinstance(text, str)}


def _damaged(what: str) -> ApiError:
    return bad_request(f"The form is damaged: {what}")
