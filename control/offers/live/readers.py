"""Clouds that can be asked about a launch before it, each with what asks."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ParamSpec, TypeVar

from control.offers.cloud_reader import CloudReader
from control.offers.live.aws_firewall import aws_firewall
from control.offers.live.aws_places import aws_image_gib, aws_sold
from control.offers.live.aws_quotas import aws_quotas
from control.offers.live.gcp_firewall import gcp_firewall
from control.offers.live.gcp_places import gcp_sold
from control.offers.live.gcp_quotas import gcp_quotas
from control.offers.live.runpod_account import runpod_quotas, runpod_sold
from control.offers.live.source import NoAnswerError
from templates_lib.values.install_hint import install_hint

P = ParamSpec("P")
R = TypeVar("R")


def cloud_readers(environment: Mapping[str, str]) -> dict[str, CloudReader]:
    """Return them by cloud. `environment`: of the process; boto3 reads it by itself."""
    return {
        "aws": CloudReader(
            _installed(aws_quotas),
            _installed(aws_sold),
            _installed(aws_image_gib),
            _installed(partial(aws_firewall, environment=environment)),
        ),
        "gcp": CloudReader(
            _installed(partial(gcp_quotas, environment=environment)),
            _installed(partial(gcp_sold, environment=environment)),
            firewall=_installed(partial(gcp_firewall, environment=environment)),
        ),
        "runpod": CloudReader(
            _installed(partial(runpod_quotas, environment=environment)),
            _installed(partial(runpod_sold, environment=environment)),
        ),
    }


def _installed(ask: Callable[P, R]) -> Callable[P, R]:
    """Have a library that is missing tell so, as a cloud that does not answer."""

    def asking(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return ask(*args, **kwargs)
        except ImportError as error:
            raise NoAnswerError(f"{error}: {install_hint('clouds')}") from None

    return asking
