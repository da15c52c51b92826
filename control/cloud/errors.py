"""Errors of clouds. The type of an error is the next step; adapters map vendors' errors to these, once.

Every type but `RetryLaterError` promises that the call had no effect: nothing was created that could cost money.
"""


class CloudError(Exception):
    """The call did not do what it was asked for."""


class RetryLaterError(CloudError):
    """Throttled, a time-out, a lost connection, a vendor's hiccup: make the same call again.

    The call may have had its effect, or may have it yet. Repeating it under the same name does no harm.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        """The least time to wait, seconds; the caller adds its own growth."""


class StockOutError(CloudError):
    """The zone has no such machine now: choose another offer, and remember this one for a while."""


class QuotaError(CloudError):
    """A limit of the account is reached: choose an offer of another pool, or have the limit raised."""


class GiveUpError(CloudError):
    """The same call will never work: the request is wrong for this cloud. Somebody has to change something."""


class OwnFaultError(CloudError):
    """The fault is on our side, such as a missing package, names that are not resolved, a full disk: it says nothing
    about the offer, and no call to this cloud works until somebody mends it. Ask again when it may have been mended."""


class UnauthorisedError(OwnFaultError):
    """Credentials are missing, wrong or too weak: no call to this cloud works until its owner mends them."""
