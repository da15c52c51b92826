"""Access to GCP through Google's client libraries; each of their failures becomes a SourceError."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from control.offers.live.bounds import bounded
from control.offers.live.source import NoAccessError, NoAnswerError, SourceError

T = TypeVar("T")

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT_S = 30.0
_RETRY_S = 60.0


@dataclass(frozen=True, slots=True)
class GcpAccess:
    credentials: Any
    project: str
    environment: Mapping[str, str]

    def client(self, kind: Callable[..., T], override: str, **more: Any) -> T:
        from google.api_core.client_options import ClientOptions

        address = self.environment.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{override}")
        options = ClientOptions(api_endpoint=address.rstrip("/")) if address else None
        return kind(credentials=self.credentials, client_options=options, **more)


def gcp_access(environment: Mapping[str, str]) -> GcpAccess:
    """Find the credentials and the project of a process. Raises NoAccessError, NoAnswerError."""
    return asked(lambda: _access(environment), "credentials")


def _access(environment: Mapping[str, str]) -> GcpAccess:
    import google.auth

    credentials, found = google.auth.default(scopes=[_SCOPE])
    project = environment.get("GOOGLE_CLOUD_PROJECT") or found
    if not project:
        raise NoAccessError("no GCP project is known: set GOOGLE_CLOUD_PROJECT")
    return GcpAccess(credentials, project, environment)


def regions_of(access: GcpAccess) -> Iterator[Any]:
    from google.cloud import compute_v1

    client = access.client(compute_v1.RegionsClient, "COMPUTE")
    request = compute_v1.ListRegionsRequest(project=access.project, max_results=500)
    for page in bounded(client.list(request=request, retry=retry(), timeout=TIMEOUT_S).pages, "quotas"):
        yield from page.items


def retry() -> Any:
    """Throttled, or a hiccup: again, later and later."""
    from google.api_core import exceptions
    from google.api_core.retry import Retry, if_exception_type

    again = if_exception_type(
        exceptions.TooManyRequests, exceptions.ServiceUnavailable, exceptions.InternalServerError, exceptions.BadGateway
    )
    return Retry(predicate=again, initial=0.5, maximum=16.0, multiplier=2.0, timeout=_RETRY_S)


def asked(ask: Callable[[], T], what: str) -> T:
    """Raises SourceError for every way in which Google's libraries fail."""
    import requests.exceptions
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError

    try:
        return ask()
    except (GoogleAuthError, GoogleAPICallError, RetryError, requests.exceptions.RequestException) as error:
        raise _source_error(error, what) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise NoAnswerError(f"{what}: the answer is not what GCP documents: {type(error).__name__} {error}") from None


def _source_error(error: Exception, what: str) -> SourceError:
    """Translate an error of google.auth, google.api_core or the HTTP library below them."""
    from google.api_core.exceptions import Forbidden, RetryError, Unauthenticated, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

    said = " ".join(str(error).split())[:300]
    if isinstance(error, DefaultCredentialsError):
        return NoAccessError(
            "no GCP credentials were found: run `gcloud auth application-default login`, "
            "or set GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, TransportError):
        return NoAnswerError(f"{what}: {said}")
    if isinstance(error, GoogleAuthError):
        return NoAccessError(f"GCP credentials cannot be used, renew them: {said}")
    if isinstance(error, Forbidden | Unauthorized | Unauthenticated):
        return NoAccessError(f"GCP does not let us ask for {what}: {said}")
    if isinstance(error, RetryError) and error.cause is not None:
        return _source_error(error.cause, what)
    return NoAnswerError(f"{what}: {said}")
