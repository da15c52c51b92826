"""What AWS's errors mean for whoever asked; mapped here, once."""

from control.offers.live.source import NoAccessError, NoAnswerError, SourceError

_NO_ACCESS = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "AuthFailure", "Blocked", "ExpiredToken", "ExpiredTokenException",
        "IncompleteSignature", "InvalidAccessKeyId", "InvalidClientTokenId", "MissingAuthenticationToken",
        "NotAuthorized", "OptInRequired", "PendingVerification", "RequestExpired", "SignatureDoesNotMatch",
        "UnauthorizedOperation", "UnrecognizedClientException",
    }
)  # fmt: skip


def source_error(error: Exception, what: str) -> SourceError:
    """`error`: of botocore. No message holds a key: botocore's own do not."""
    from botocore.exceptions import (
        ClientError,
        CredentialRetrievalError,
        NoAuthTokenError,
        NoCredentialsError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOError,
    )

    if isinstance(error, NoCredentialsError):
        return NoAccessError("no AWS credentials were found: set AWS_ACCESS_KEY_ID, AWS_PROFILE or a role")
    if isinstance(
        error, PartialCredentialsError | CredentialRetrievalError | ProfileNotFound | NoAuthTokenError | SSOError
    ):
        return NoAccessError(f"AWS credentials cannot be used: {error}")
    if isinstance(error, ClientError):
        code, said = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if code in _NO_ACCESS:
            return NoAccessError(f"AWS does not let us ask for {what}: {code}: {said[:300]}")
        return NoAnswerError(f"{what}: {code}: {said[:300]}")
    return NoAnswerError(f"{what}: {error}")
