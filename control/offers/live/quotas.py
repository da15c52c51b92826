"""Clouds whose quotas can be read, each with what reads them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from control.offers.live.aws_quotas import aws_quotas
from control.offers.live.gcp_quotas import gcp_quotas
from control.offers.live.source import NoAnswerError
from control.offers.quota import QuotaAnswer
from templates_lib.values.offer import Offer

_READERS: dict[str, Callable[[Sequence[Offer], Mapping[str, str]], QuotaAnswer]] = {
    "aws": aws_quotas,
    "gcp": gcp_quotas,
}


def quota_readers(environment: Mapping[str, str]) -> dict[str, Callable[[Sequence[Offer]], QuotaAnswer]]:
    """Return what reads quotas, by cloud: those that nodes of offers, all of that cloud, count against. It raises
    SourceError. `environment`: of the process."""
    return {cloud: partial(_read, cloud, environment) for cloud in _READERS}


def _read(cloud: str, environment: Mapping[str, str], offers: Sequence[Offer]) -> QuotaAnswer:
    try:
        return _READERS[cloud](offers, environment)
    except ImportError as error:
        raise NoAnswerError(f"{error}: install medley-serving[clouds]") from None
