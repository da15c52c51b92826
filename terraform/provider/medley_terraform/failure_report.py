"""A refusal of the API as Terraform shows it: at the attributes that it is about."""

from collections.abc import Callable

from medley_terraform.failure import INTERRUPTED, NOT_MEDLEY, UNREACHABLE, UNUSABLE, Failure
from medley_terraform.report import Path, Report

_SUMMARIES = {
    UNREACHABLE: "Medley's admin API cannot be reached",
    NOT_MEDLEY: "This is not Medley's admin API",
    UNUSABLE: "Variables for proxies or certificates cannot be used",
    INTERRUPTED: "Interrupted",
    "unauthorized": "The API token is not accepted",
    "forbidden": "The API token may not do this",
    "not-configured": "The provider is not configured yet",
    "precondition-failed": "It was changed since it was planned",
    "over-budget": "The fleet is over its budget",
    "cannot-be-planned": "The fleet cannot be planned",
    "serves-traffic": "It still serves",
    "conflict": "It is in the way of what is there",
    "not-found": "It is not there",
    "invalid": "Medley refuses this",
    "still-there": "It is not gone yet",
}
_NEXT = {
    UNREACHABLE: "MEDLEY_ENDPOINT, or `endpoint` of the provider, says where it is: http(s)://HOST:PORT. "
    "SSL_CERT_FILE names the certificate of an authority of your own; HTTPS_PROXY and NO_PROXY say what goes through a "
    "proxy.",
    UNUSABLE: "Look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR.",
    "unauthorized": "MEDLEY_TOKEN, or `token` of the provider, takes what `medley token create` prints.",
    "forbidden": "Give the provider a token of that role: `medley token create NAME --role ROLE` makes one.",
    "not-found": "If it was deleted meanwhile, plan again: it will be made anew.",
    "precondition-failed": "Somebody was faster. Nothing was written: plan again, and look at what changed.",
}


def report_failure(failure: Failure, report: Report, path_of: Callable[[str], Path] = lambda _: ()) -> None:
    """`path_of`: the attribute that a JSON pointer into the request speaks of; empty: none."""
    summary = _SUMMARIES.get(failure.name, failure.name.replace("-", " ").capitalize())
    if failure.errors:
        for wrong in failure.errors:
            report.error(summary, wrong.message, path_of(wrong.pointer))
        return
    more = _NEXT.get(failure.name)
    report.error(summary, f"{failure.said}\n\n{more}" if more else failure.said)


def top_level(pointer: str) -> Path:
    """Return the attribute of a JSON pointer into a request whose fields have the names of attributes."""
    name = pointer.removeprefix("/").partition("/")[0]
    return (name,) if name else ()
