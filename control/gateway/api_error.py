"""Errors as the OpenAI API reports them: a status, and an object with message, type, param and code."""

import difflib
import math
from collections.abc import Collection

import msgspec

from agents.messages.to_gateway import Failed, Failure
from control.tasks.failure import TASK_FAILED
from templates_lib.media.media_error import MediaError


class ApiError(Exception):
    """Ends a request; what the client gets."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers

    def encode(self) -> bytes:
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
        )


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, "invalid_request_error", message, code=code, param=param)


def media_refused(error: MediaError, message: str) -> ApiError:
    if error.fault.is_size:
        return ApiError(413, "invalid_request_error", message, code=error.fault, param="messages")
    return bad_request(message, "messages", error.fault)


def unsupported(param: str, why: str) -> ApiError:
    """A parameter of the OpenAI API that nothing here can honour; ignoring it would answer another question."""
    return bad_request(f"`{param}` is not supported: {why}", param, "unsupported_parameter")


def unknown_model(model: str, known: Collection[str]) -> ApiError:
    near = difflib.get_close_matches(model, known, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    message = f"The model `{model[:200]}` does not exist.{hint} See /v1/models."
    return ApiError(404, "invalid_request_error", message, code="model_not_found", param="model")


def unauthorized(message: str) -> ApiError:
    headers = ((b"www-authenticate", b"Bearer"),)
    return ApiError(401, "invalid_request_error", message, code="invalid_api_key", headers=headers)


def over_capacity(message: str, retry_after_s: float) -> ApiError:
    """429: come again after `retry_after_s`, rounded up to whole seconds as the header wants it."""
    return ApiError(429, "rate_limit_error", message, code="rate_limit_exceeded", headers=(retry_after(retry_after_s),))


def over_limit(whose: str, unit: str, limit: int, wait_s: float, headers: tuple[tuple[bytes, bytes], ...]) -> ApiError:
    """429: of a limit of a key or its project, not of what could be served."""
    message = f"Your {whose} may use {limit} {unit} per minute. Try again in {max(1, math.ceil(wait_s))} s."
    headers = (retry_after(wait_s), *headers)
    return ApiError(429, unit, message, code="rate_limit_exceeded", headers=headers)


def given_up(failed: Failed) -> ApiError:
    """The answer to what no other instance would do better."""
    if failed.failure is Failure.DEADLINE:
        return ApiError(504, "server_error", "The answer took too long", code="timeout")
    code = "context_length_exceeded" if failed.failure is Failure.TOO_LONG else "unsupported_parameter"
    return bad_request(failed.reason, code=code)


def of_earlier_release(instance: str) -> ApiError:
    """503: an instance would read over what is asked, and answer something else."""
    return unavailable(
        f"Instance {instance} is of an earlier release, which has no penalties, min_p, logit_bias or min_tokens:"
        " leave them out, or send the request again when it is upgraded",
        60.0,
    )


def without_grammars(instance: str) -> ApiError:
    """400: an instance does not know its model's tokens as text."""
    return bad_request(
        f"Instance {instance} cannot hold an answer to a form: there is no tokenizer.json beside its weights, or no"
        " llguidance. Ask for the form in a message instead",
        code="unsupported_parameter",
    )


def without_states(instance: str) -> ApiError:
    """400: what runs there hands out no hidden states."""
    return bad_request(
        f"Instance {instance} makes no embeddings: they are made by engine `torch` of this release, and not by vLLM."
        " Ask a model of /v1/models that such an engine runs",
        "model",
        "unsupported_parameter",
    )


def client_left() -> ApiError:
    return ApiError(499, "client_closed_request", "The client left")


def task_failed(app: str) -> ApiError:
    """500: the code of an app's task did not do what it was asked (`TaskFailedError`, whose reason names files of the
    gateway's machine and is not for clients)."""
    return ApiError(500, "server_error", f"The code of app {app} failed on this request", code=TASK_FAILED)


def unavailable(message: str, retry_after_s: float = 5.0) -> ApiError:
    return ApiError(503, "server_error", message, code="service_unavailable", headers=(retry_after(retry_after_s),))


LATE_REFUSED = "late_refused"


def late_refused(model: str, too_long_s: float | None, retry_after_s: float) -> ApiError:
    """503: no instance could begin the request in time. `too_long_s`: time of its prompt where that alone is above the
    objective, else None; `retry_after_s`: when what waits now is computed."""
    if too_long_s is None:
        message = f"No instance of `{model}` can begin the request in time. Send it again later"
    else:
        message = (
            f"The prompt takes the fastest instance of `{model}` {too_long_s:.3g} s, longer than its first token may"
            " take. Send a shorter one"
        )
    return ApiError(503, "server_error", message, code=LATE_REFUSED, headers=(retry_after(retry_after_s),))


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    return b"retry-after", str(max(1, min(math.ceil(seconds), 3600)) if math.isfinite(seconds) else 30).encode()
