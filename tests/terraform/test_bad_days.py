"""Applies that are cut off, that meet, that lose answers: nothing is there twice, and nothing is left behind."""

import os
import re
import shutil
import signal
import subprocess
import time

import psutil
import pytest

from tests.conftest import TERRAFORM_PYTHON
from tests.terraform.conftest import OF_THROUGHPUT, PATIENCE_S, PROVIDER, ControlPlane, Make, Terraform, environment_of
from tests.terraform.lossy_proxy import lossy_proxy

pytestmark = [pytest.mark.needs("terraform"), pytest.mark.slow]
TOKENS = """
resource "medley_project" "p" {
  name = "%s"
}
resource "medley_api_token" "t" {
  count   = 2
  name    = "%s bot"
  role    = "client"
  project = medley_project.p.id
}
"""


def test_it_is_installed_from_a_mirror_with_a_lock_file(make: Make, control_plane: ControlPlane) -> None:
    terraform = make("mirrored")
    folder = terraform.directory / "mirror"
    subprocess.run((TERRAFORM_PYTHON.parent / PROVIDER, "mirror", folder), check=True, capture_output=True)
    configuration = terraform.directory / "user.tfrc"
    mirror = f'filesystem_mirror {{\n    path = "{folder}"\n  }}'
    configuration.write_text(f"provider_installation {{\n  {mirror}\n}}\n")
    terraform.environment |= environment_of(control_plane.url, control_plane.token, configuration)

    terraform.ok("init")
    lock = (terraform.directory / ".terraform.lock.hcl").read_text()
    assert re.search(r'version\s+= "0\.1\.0".*"h1:', lock, re.S)
    before = terraform.planned()["medley_fleet.chat"]["after"]["expected_usd_per_hour"]
    terraform.ok("apply", "plan")
    assert terraform.is_clean()

    # What the Python of a machine is told, and by whom, is not the provider's.
    hooks = terraform.directory / "hooks"
    hooks.mkdir()
    for name in ("sitecustomize", "json", "grpc"):
        (hooks / f"{name}.py").write_text('raise SystemExit("a hook")')
    long = terraform.directory / ("long" * 25)
    long.mkdir()
    told = {"PYTHONPATH": str(hooks), "PYTHONHOME": "/nowhere", "PYTHONINSPECT": "1", "TMPDIR": str(long)}
    terraform.ok("plan", "-detailed-exitcode", **told)
    terraform.ok("init", "-lockfile=readonly")  # running it has changed nothing of the package
    only = terraform.directory / "only"
    only.mkdir()
    for name in ("dirname", "sh", "terraform"):
        (only / name).symlink_to(shutil.which(name) or name)
    assert "terraform-provider-medley needs Python 3." in terraform.refused("plan", PATH=str(only))
    assert terraform.state()["medley_fleet.chat"]["expected_usd_per_hour"] == before
    terraform.ok("destroy", "-auto-approve")


def test_what_a_killed_apply_has_made_is_found_again(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text=(TOKENS % ("killed", "killed")).replace("killed bot", "killed bot ${count.index}"))
    with control_plane.client() as api:

        def made() -> set[str]:
            tokens = api.get("/tokens?limit=200").json()["items"]
            return {e["id"] for e in tokens if e["name"].startswith("killed bot") and e["revoked_at"] is None}

        first = terraform.start("apply", "-auto-approve")
        give_up_s = time.monotonic() + PATIENCE_S
        while api.get("/projects/killed").status_code != 200:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        providers_end(terraform)

        # Twice: after the first time, the state was not written at all.
        for _ in range(2):
            terraform.apply()
            state = terraform.state()
            ours = {state[f"medley_api_token.t[{number}]"]["id"] for number in range(2)}
            assert (len(ours), made()) == (2, ours)
            (terraform.directory / "terraform.tfstate").rename(terraform.directory / "kept")
        (terraform.directory / "kept").rename(terraform.directory / "terraform.tfstate")
        assert terraform.is_clean()

        # A state that is lost later takes the values of its tokens along: they still work, which is said.
        (terraform.directory / "terraform.tfstate").unlink()
        said = " ".join(terraform.apply().split())
        for each in ours:
            assert f"medley token revoke {each}" in said
            api.delete(f"/tokens/{each}").raise_for_status()
        assert len(made()) == 2
        terraform.ok("destroy", "-auto-approve")
        assert made() == set()


def test_ctrl_c_leaves_what_the_next_apply_goes_on_with(make: Make, control_plane: ControlPlane) -> None:
    terraform = make(text=TOKENS % ("stopped", "stopped"))
    with control_plane.client() as api:
        first = terraform.start("apply", "-auto-approve")
        give_up_s = time.monotonic() + PATIENCE_S
        while api.get("/projects/stopped").status_code != 200:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGINT)
        first.communicate(timeout=PATIENCE_S)
        providers_end(terraform)
        there = terraform.state()
        assert "medley_project.p" in there
        terraform.apply()
        assert there.items() <= terraform.state().items()
        terraform.ok("destroy", "-auto-approve")


def test_answers_that_are_lost_make_nothing_twice(make: Make, control_plane: ControlPlane) -> None:
    with lossy_proxy(control_plane.url) as (url, lost), control_plane.client() as api:
        terraform = make("lossy", url=url)
        text = OF_THROUGHPUT.replace('= "support', '= "lossy').replace('= "chat"', '= "lossy-chat"')
        terraform.write(text)
        terraform.apply()
        terraform.apply("-var=requests_per_s=30")
        assert terraform.is_clean("-var=requests_per_s=30")
        tokens = [each for each in api.get("/tokens?limit=200").json()["items"] if each["name"] == "lossy bot"]
        assert len(tokens) == 1
        terraform.ok("destroy", "-auto-approve")
        for change in ("POST /api/v1/fleets", "POST /api/v1/tokens", "PUT /api/v1/fleets/lossy-chat"):
            assert change in lost
        assert api.get("/fleets/lossy-chat").status_code == 404


def test_two_applies_at_once(make: Make, control_plane: ControlPlane) -> None:
    # In one directory the state is locked: one waits its turn or is told so.
    one = make(text=TOKENS % ("twice", "twice"))
    both = [one.start("apply", "-auto-approve", "-lock-timeout=0s") for _ in range(2)]
    said = [each.communicate(timeout=PATIENCE_S)[0] for each in both]
    assert any(each.returncode == 0 for each in both), said
    for each, text in zip(both, said, strict=True):
        assert each.returncode == 0 or "Error acquiring the state lock" in text, text
    assert one.is_clean()
    state = one.state()
    assert state["medley_api_token.t[0]"]["id"] != state["medley_api_token.t[1]"]["id"]

    # From one plan each of two states: what the other has changed since is not overwritten.
    other = make("other", text=TOKENS % ("twice", "twice"))
    (other.directory / "terraform.tfstate").write_text((one.directory / "terraform.tfstate").read_text())
    for terraform, name in ((one, "this"), (other, "that")):
        text = (terraform.directory / "main.tf").read_text()
        terraform.write(text.replace('name = "twice"', f'name = "twice"\n  description = "{name}"'))
        terraform.planned()
    one.ok("apply", "plan")
    assert "It was changed since it was planned" in other.refused("apply", "plan")
    with control_plane.client() as api:
        assert api.get("/projects/twice").json()["description"] == "this"
    one.ok("destroy", "-auto-approve")


def providers_end(terraform: Terraform) -> None:
    """A provider looks twice a second whether its Terraform is there."""
    give_up_s = time.monotonic() + PATIENCE_S
    while any(_is_of(process, terraform) for process in psutil.process_iter()):
        assert time.monotonic() < give_up_s, "a provider outlives its Terraform"
        time.sleep(0.05)


def _is_of(process: psutil.Process, terraform: Terraform) -> bool:
    try:
        return any(PROVIDER in part for part in process.cmdline()) and process.cwd() == str(terraform.directory)
    except psutil.Error:
        return False
