"""The provider: where the admin API is, who calls it, and what of it is managed."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from medley_terraform.client import LOOPBACK, Client
from medley_terraform.data_sources.instances import InstancesData
from medley_terraform.data_sources.offers import OffersData
from medley_terraform.data_sources.plan import PlanData
from medley_terraform.failure import NOT_MEDLEY, Failure
from medley_terraform.failure_report import report_failure
from medley_terraform.report import Report
from medley_terraform.resource import DataSource, Resource
from medley_terraform.resources.api_token import ApiTokenResource
from medley_terraform.resources.budget import BudgetResource
from medley_terraform.resources.fleet import FleetResource
from medley_terraform.resources.model import ModelResource
from medley_terraform.resources.project import ProjectResource
from medley_terraform.schema import Schema
from medley_terraform.session import Session
from medley_terraform.types import Attribute, Limits, Scalar
from medley_terraform.unknown import Unknown
from medley_terraform.validation import check

ENDPOINT, TOKEN = "MEDLEY_ENDPOINT", "MEDLEY_TOKEN"
_FIRST_ANSWER_S = 3.0

PROVIDER = Schema(
    "Manages Medley: fleets of mixed GPUs that serve models within their latency "
    "objectives at the least cost, and the projects, models, budgets and API tokens around them.",
    (
        Attribute("endpoint", f"URL of the admin API (`medley api`), without `/api/v1`. Default: `{ENDPOINT}`."),
        Attribute(
            "token",
            f"API token of `medley token create`: role `admin` for projects, budgets and tokens, "
            f"`operator` for fleets and models, `viewer` for data sources. Default: `{TOKEN}`, where it is kept out of "
            "files.",
            sensitive=True,
        ),
        Attribute(
            "plan_timeout_s",
            "Seconds that the dry run of a fleet may take; the first one of a model may have to build its "
            "library of templates. Default: 600.",
            Scalar.NUMBER,
            limits=Limits(above=0, most=7200),
        ),
    ),
)

RESOURCES: Mapping[str, type[Resource]] = {
    each.name: each for each in (ApiTokenResource, BudgetResource, FleetResource, ModelResource, ProjectResource)
}
DATA_SOURCES: Mapping[str, type[DataSource]] = {each.name: each for each in (InstancesData, OffersData, PlanData)}


def validate_provider(config: dict[str, Any], report: Report) -> None:
    check(PROVIDER.shape, config, report)
    endpoint = config.get("endpoint")
    if isinstance(endpoint, str):
        _check_endpoint(endpoint, report)


def configure(session: Session, config: dict[str, Any], report: Report) -> None:
    """Raises Failure when the API does not answer, or not to this token: once, and not for every resource."""
    if config.get("plan_timeout_s") is not None:
        session.plan_timeout_s = float(config["plan_timeout_s"])
    endpoint = config.get("endpoint") or os.environ.get(ENDPOINT)
    token = config.get("token") or os.environ.get(TOKEN)
    if isinstance(endpoint, Unknown) or isinstance(token, Unknown):
        return
    for name, value, variable in (("endpoint", endpoint, ENDPOINT), ("token", token, TOKEN)):
        if not value:
            report.error(f"No {name}", f"Set {variable}, or `{name}` of the provider.", (name,))
    if report.failed or not endpoint or not token or not _check_endpoint(endpoint, report):
        return
    if not token.isascii() or not token.isprintable():
        report.error("This is no token", "It has characters that no token of Medley has.", ("token",))
        return
    try:
        client = Client(endpoint, token, session.stopping)
        client.get("/session", patience_s=_FIRST_ANSWER_S)
    except Failure as failure:
        report_failure(failure if failure.name != "not-found" else _elsewhere(endpoint), report)
        return
    session.connected = client


def _elsewhere(endpoint: str) -> Failure:
    detail = f"{endpoint} has no /api/v1/session, which is not Medley's admin API"
    return Failure(NOT_MEDLEY, f"{detail}: is the endpoint right, and does it end before /api/v1?")


def _check_endpoint(endpoint: str, report: Report) -> bool:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        report.error("The endpoint is no URL", f"{endpoint}: {error}", ("endpoint",))
        return False
    if parts.scheme not in ("http", "https") or not host:
        report.error("The endpoint is no URL", f"It is {endpoint!r}; give http(s)://HOST:PORT.", ("endpoint",))
        return False
    if parts.path.rstrip("/").endswith("/api/v1"):
        report.error("The endpoint is too long", "Give it without /api/v1.", ("endpoint",))
        return False
    if parts.scheme == "http" and host not in LOOPBACK:
        report.warning(
            "The API token is sent in the clear", f"{endpoint} is not https: put TLS in front of it.", ("endpoint",)
        )
    return True
