"""Access to AWS through boto3, with its own credentials and endpoints; each of its failures becomes a SourceError."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from control.offers.live.source import NoAccessError, NoAnswerError, SourceError

if TYPE_CHECKING:
    from boto3.session import Session

T = TypeVar("T")

HOME = "us-east-1"
"""Region with the price list of all regions, which is also asked for the regions."""
_NO_ACCESS = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "AuthFailure", "Blocked", "ExpiredToken", "ExpiredTokenException",
        "IncompleteSignature", "InvalidAccessKeyId", "InvalidClientTokenId", "MissingAuthenticationToken",
        "NotAuthorized", "OptInRequired", "PendingVerification", "RequestExpired", "SignatureDoesNotMatch",
        "UnauthorizedOperation", "UnrecognizedClientException",
    }
)  # fmt: skip


def asked(ask: Callable[[], T], what: str) -> T:
    """Raises SourceError for every way in which boto3 fails."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return ask()
    except (BotoCoreError, ClientError) as error:
        raise _source_error(error, what) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoAnswerError(f"{what}: the answer is not what AWS documents: {type(error).__name__} {error}") from None


class AwsClients:
    """A session is not thread-safe, the clients it makes are."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._made: dict[tuple[str, str], Any] = {}
        self._turn = Lock()

    @classmethod
    def of_environment(cls) -> "AwsClients":
        """Raises ImportError where boto3 is not installed."""
        import boto3  # slow, and needed only here

        return cls(boto3.Session())

    def get(self, service: str, region: str) -> Any:
        from botocore.config import Config

        with self._turn:
            if (service, region) not in self._made:
                # Adaptive: one account's calls slow down together when they are throttled.
                retries: Any = {"mode": "adaptive", "total_max_attempts": 6}
                config = Config(connect_timeout=5, read_timeout=20, retries=retries)
                self._made[service, region] = self._session.client(service, region_name=region, config=config)
            return self._made[service, region]


def _source_error(error: Exception, what: str) -> SourceError:
    """Translate an error of botocore. No message holds a key: botocore's own do not."""
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
