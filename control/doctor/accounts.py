"""Clouds that nodes are rented at: whether this machine has credentials of each. No cloud is asked."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from control.doctor.check import Check, Health
from control.preflight.site import TOOLS
from templates_lib.values.clouds import SKYPILOT, clouds_of


@dataclass(frozen=True, slots=True)
class _Credentials:
    variables: tuple[str, ...]
    files: tuple[str, ...]
    """Below the home of whoever runs Medley."""
    how: str
    """To get some."""


_CREDENTIALS = {
    "aws": _Credentials(
        ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        (".aws/credentials", ".aws/config"),
        "run `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a role of this machine does, too",
    ),
    "gcp": _Credentials(
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        (".config/gcloud/application_default_credentials.json",),
        "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    ),
    "kubernetes": _Credentials(("KUBECONFIG",), (".kube/config",), "write ~/.kube/config, or set KUBECONFIG"),
    "runpod": _Credentials(
        ("RUNPOD_API_KEY",), (".runpod/config.toml",), "run `runpod config`, or set RUNPOD_API_KEY to a key"
    ),
}
"""As the clouds' own libraries find them."""


def of_accounts(environment: Mapping[str, str], home: Path) -> Iterator[Check]:
    """Yield a check for each cloud that SkyPilot rents at, and for each program that it takes. `home`: of whoever runs
    Medley."""
    for tool, use in TOOLS.items():
        found = shutil.which(tool, path=environment.get("PATH"))
        lacking = f"{tool} is not on the path: {use}; install it with the system's packages"
        yield Check(f"tool.{tool}", Health.OK if found else Health.MISSING, found or lacking)
    for cloud in clouds_of(SKYPILOT):
        yield _of_account(cloud, environment, home)


def _of_account(cloud: str, environment: Mapping[str, str], home: Path) -> Check:
    where = _CREDENTIALS[cloud]
    variables = [name for name in where.variables if environment.get(name)]
    files = [str(home / name) for name in where.files if (home / name).is_file()]
    found = [*(f"${name}" for name in variables), *files]
    if not found:
        return Check(f"cloud.{cloud}", Health.MISSING, f"no credentials are here: {where.how}")
    said = f"credentials in {', '.join(found)}; `medley preflight -f SPEC` asks the cloud whether they do"
    return Check(f"cloud.{cloud}", Health.OK, said)
