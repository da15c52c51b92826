"""Answers of clouds to calls for a node, remembered for every process that plans or launches.

Launches report here: each refusal (`control.executor.provision.RefusedOffer`), each success, each node taken back.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from control.cloud.errors import CloudError, OwnFaultError, QuotaError, RetryLaterError, StockOutError
from control.db.database import Database
from control.db.market_memory import PostgresMarketMemory
from control.offers.learned import quota_subject, subjects, why_excluded
from control.printable import printable
from policies.availability import CallOutcome, Learned, learn
from templates_lib.values.offer import Offer

_REASON_LETTERS = 500


def note_refusal(database: Database, offer: Offer, error: CloudError, now: datetime) -> None:
    """A cloud did not give a node of `offer`. How long it is avoided, and what with it, follows from the error's type;
    a fault of our own teaches nothing.

    Raises DatabaseUnavailableError.
    """
    outcome = _outcome(error)
    note(database, offer, outcome, str(error), now)


def note_success(database: Database, offer: Offer, now: datetime) -> None:
    """A cloud gave a node of `offer`. Raises DatabaseUnavailableError."""
    note(database, offer, CallOutcome.GRANTED, "", now)


def note_taken(database: Database, offer: Offer, reason: str, now: datetime) -> None:
    """A spot node of `offer` was taken back, or will be: the next one goes elsewhere for a while.

    Raises DatabaseUnavailableError.
    """
    note(database, offer, CallOutcome.TAKEN, reason, now)


def avoided(database: Database, offers: Iterable[Offer], now: datetime) -> dict[str, str]:
    """Key → why, of those of `offers` that are not to be asked now, whatever plan names them.

    Asked right before a launch, it keeps a plan that was made before a refusal from repeating it. Raises
    DatabaseUnavailableError.
    """
    return avoided_by(PostgresMarketMemory(database).read(), offers, now)


def avoided_by(memory: Mapping[str, Learned], offers: Iterable[Offer], now: datetime) -> dict[str, str]:
    return {offer.key: why for offer in offers if (why := why_excluded(offer, memory, now))}


def note(database: Database, offer: Offer, outcome: CallOutcome, reason: str, now: datetime) -> None:
    """A call for a node of `offer` came to this. Raises DatabaseUnavailableError."""
    said = printable(reason)[:_REASON_LETTERS]
    own = offer.key

    def learned(subject: str, known: Learned | None) -> Learned | None:
        # A node that is given refutes what was thought of its family and cloud; it is no news about them otherwise.
        if outcome is CallOutcome.GRANTED and subject != own and known is None:
            return None
        return learn(known, outcome, said, now)

    PostgresMarketMemory(database).note(own, outcome, said, concerned(offer, outcome), learned, now)


def concerned(offer: Offer, outcome: CallOutcome) -> tuple[str, ...]:
    """Return the subjects about which an outcome says something: an offer, its quota family, its cloud."""
    match outcome:
        case CallOutcome.UNKNOWN:
            return ()
        case CallOutcome.QUOTA:
            return (quota_subject(offer),)
        case CallOutcome.UNAUTHORISED:
            return (offer.cloud,)
        case CallOutcome.GRANTED:
            return subjects(offer)
        case _:
            return (offer.key,)


def _outcome(error: CloudError) -> CallOutcome:
    match error:
        case RetryLaterError() | OwnFaultError():
            return CallOutcome.UNKNOWN
        case StockOutError():
            return CallOutcome.STOCK_OUT
        case QuotaError():
            return CallOutcome.QUOTA
        case _:
            return CallOutcome.REFUSED
