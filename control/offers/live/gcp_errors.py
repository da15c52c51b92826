"""What the errors of Google's libraries mean for whoever asked; mapped here, once."""

from control.offers.live.source import NoAccessError, NoAnswerError, SourceError


def source_error(error: Exception, what: str) -> SourceError:
    """`error`: of google.auth, google.api_core or the HTTP library below them."""
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
        return source_error(error.cause, what)
    return NoAnswerError(f"{what}: {said}")
