"""A plugin for SkyPilot's API server: AWS, GCP and RunPod whose machines are processes of this machine.

Replaced are the checks of credentials and the creation of machines, with what looks at and ends such machines;
SkyPilot's optimiser, backend, copying of files, status and teardown are its own. Its runtime (Ray and its job queue) is
left out, and the machine itself runs what SkyPilot would have it run, unless the machines' image has it: then SkyPilot
starts it there, and hands it the node's set-up and command as a job. `PATCHED` is the whole list.
"""

import base64
import builtins
import json
import socket
import time
from contextlib import suppress
from pathlib import Path

import sky
from sky import authentication, clouds, provision
from sky.provision import common
from sky.provision.aws import instance as aws_instance
from sky.provision.gcp import instance_utils as gcp_instance
from sky.provision.runpod import instance as runpod_instance
from sky.provision.runpod import utils as runpod_utils
from sky.server import plugins
from sky.utils import status_lib

from tests.control.cloud.skypilot_world.world import RUNNING, Machine, World

CLOUDS = {"aws": clouds.AWS, "gcp": clouds.GCP, "runpod": clouds.RunPod}
TEMPLATE = Path(__file__).with_name("machine.yml.j2")
PATCHED: dict[str, str] = {}
"""What of SkyPilot is replaced, and why."""


STARTED = common.ProvisionRuntimeMetadata(
    has_ray=False,
    has_skylet=False,
    has_job_queue=False,
    ssh_available=True,
    runtime_setup_done=True,
    workdir_synced=True,
    file_mounts_synced=False,
    setup_done=True,
    run_started=True,
)
"""Of a machine that runs by itself what SkyPilot would have it run."""


class Machines:
    """What `sky.provision` asks of a cloud."""

    world: World
    runtime: Path | None = None
    """Environment with SkyPilot's runtime, which machines have in their image; None: they have none."""

    @staticmethod
    def bootstrap_instances(region, cluster_name, config):
        return config

    @classmethod
    def run_instances(cls, region, cluster_name, cluster_name_on_cloud, config):
        cloud, zone = config.provider_config["cloud"], config.provider_config["availability_zone"]
        node = config.node_config
        task = json.loads(base64.b64decode(node["Task"]))
        with cls.world.turn():
            existing = [m for m in cls.world.machines() if m.cluster == cluster_name_on_cloud]
            if not existing and (refusal := cls.world.refusal(cloud, node["InstanceType"])) is not None:
                refuse(cloud, zone, *refusal)
            machine = existing[0] if existing else None
            if machine is None:
                machine = Machine(
                    id=f"i-{cluster_name_on_cloud}",
                    cloud=cloud,
                    cluster=cluster_name_on_cloud,
                    zone=zone,
                    instance_type=node["InstanceType"],
                    disk_gib=node["DiskSize"],
                    spot=node["UseSpot"],
                    labels=node["Labels"],
                    ports=tuple(config.ports_to_open_on_launch or ()),
                )
                key = Path(config.authentication_config["ssh_private_key"]).with_suffix(".pub")
                if cls.runtime is not None:
                    install_runtime(cls.world.home(machine.id), cls.runtime)
                    machine = cls.world.start(machine, key)
                else:
                    arrived = " ] && [ -e ".join(path.replace("~", "$HOME") for path in task["files"])
                    wait = f"until [ -e {arrived} ]; do sleep 0.1; done"
                    script = f"{wait}; {{ {task['setup']}\n}} && {{\n{task['run']}\n}}"
                    machine = cls.world.start(machine, key, script)
        _until_answers(machine.address, machine.ssh_port)
        done = common.ProvisionRuntimeMetadata() if cls.runtime is not None else STARTED
        return common.ProvisionRecord(
            provider_name=cloud,
            region=region,
            zone=zone,
            cluster_name=cluster_name_on_cloud,
            head_instance_id=machine.id,
            resumed_instance_ids=[],
            created_instance_ids=[] if existing else [machine.id],
            runtime_metadata=done,
        )

    @staticmethod
    def wait_instances(region, cluster_name_on_cloud, state):
        pass

    @classmethod
    def query_instances(
        cls, cluster_name, cluster_name_on_cloud, provider_config=None, non_terminated_only=True, retry_if_missing=False
    ):
        up, stopped = status_lib.ClusterStatus.UP, status_lib.ClusterStatus.STOPPED
        return {m.id: (up if m.state == RUNNING else stopped, None) for m in cls._of(cluster_name_on_cloud)}

    @classmethod
    def get_cluster_info(cls, region, cluster_name_on_cloud, provider_config=None):
        found = {
            m.id: [common.InstanceInfo(m.id, m.address, m.address, {}, ssh_port=m.ssh_port)]
            for m in cls._of(cluster_name_on_cloud)
        }
        return common.ClusterInfo(
            instances=found,
            head_instance_id=next(iter(found), None),
            provider_name=provider_config["cloud"],
            provider_config=provider_config,
            ssh_user="root",
        )

    @classmethod
    def terminate_instances(cls, cluster_name_on_cloud, provider_config=None, worker_only=False):
        with cls.world.turn():
            for machine in cls._of(cluster_name_on_cloud):
                cls.world.remove(machine)

    @staticmethod
    def open_ports(cluster_name_on_cloud, ports, provider_config=None):
        pass

    @staticmethod
    def cleanup_ports(cluster_name_on_cloud, ports, provider_config=None):
        pass

    @classmethod
    def _of(cls, cluster):
        return [machine for machine in cls.world.machines() if machine.cluster == cluster]


def template(task, to_provision, **_):
    body = {"setup": task.setup or "", "run": task.run or "", "files": list(task.file_mounts or {})}
    return provision.TemplateSpec(
        str(TEMPLATE),
        {
            "world_cloud": to_provision.cloud.canonical_name(),
            "world_spot": to_provision.use_spot,
            "world_labels": json.dumps(to_provision.labels or {}),
            "world_task": base64.b64encode(json.dumps(body).encode()).decode(),
        },
    )


def refuse(cloud: str, zone: str, code: str, words: str) -> None:
    """Fail as SkyPilot's own provisioner of that cloud does when the vendor says so: its code, its logs. A built-in
    exception in place of a code is raised as it is: SkyPilot's own code breaks off."""
    if isinstance(broken := getattr(builtins, code or "no code", None), type):
        raise broken(words)
    if cloud == "aws":
        from botocore.exceptions import ClientError

        class Vendor:
            class meta:  # noqa: N801
                class client:  # noqa: N801
                    class meta:  # noqa: N801
                        region_name = zone[:-1]

            @staticmethod
            def create_instances(**_):
                raise ClientError({"Error": {"Code": code, "Message": words}}, "RunInstances")

        aws_instance.time = _Hurried
        aws_instance._create_instances(
            Vendor, "c", {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}, {}, 1, True, 0
        )
    elif cloud == "gcp":
        errors = [{"code": code, "domain": "create_instances", "message": words}]
        gcp_instance._format_and_log_message_from_errors(errors, None, zone)
        error = common.ProvisionerError("Failed to launch instances.")
        error.errors = errors
        raise error
    else:

        def launch(**_):
            raise sky.adaptors.runpod.runpod.error.QueryError(words, "mutation")

        runpod_utils.list_instances, runpod_utils.launch = dict, launch
        config = common.ProvisionConfig(
            provider_config={"availability_zone": zone},
            authentication_config={},
            docker_config={},
            node_config={
                "InstanceType": "x",
                "DiskSize": 1,
                "ImageId": "x",
                "PublicKey": "x",
                "Preemptible": False,
                "BidPerGPU": 0,
            },
            count=1,
            tags={},
            resume_stopped_nodes=True,
            ports_to_open_on_launch=None,
        )
        runpod_instance.run_instances("r", "c", "c", config)


def install_runtime(home: Path, runtime: Path) -> None:
    """As an image made for SkyPilot has it, which then installs nothing."""
    for folder in (".sky/sky_app", "sky_workdir"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / ".sky" / "python_path").write_text(f"{runtime}/bin/python\n")
    (home / ".sky" / "ray_path").write_text(f"{runtime}/bin/ray\n")
    with suppress(FileExistsError):
        (home / "skypilot-runtime").symlink_to(runtime)


def _until_answers(address: str, port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection((address, port), timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class _Hurried:
    """Time for whoever would wait a minute for a throttled vendor."""

    @staticmethod
    def sleep(_seconds: float) -> None:
        pass


def _patch(owner, name: str, value, why: str) -> None:
    PATCHED[f"{owner.__name__}.{name}"] = why
    setattr(owner, name, value)


class LocalClouds(plugins.BasePlugin):
    def __init__(
        self, world: str, refused: dict[str, str] | None = None, networked: bool = False, runtime: str = ""
    ) -> None:
        """`refused`: cloud → why its credentials do not do. `networked`, `runtime`: as of `World`, `Machines`."""
        Machines.world = World(Path(world), networked)
        Machines.runtime = Path(runtime) if runtime else None
        self._refused = refused or {}

    def install(self, extension_context) -> None:
        for name, cloud in CLOUDS.items():
            provision.register_provisioner(name, Machines, template_override=template)
            reason = self._refused.get(name)
            if name == "aws" and reason is None:
                continue  # moto knows who we are, and its images
            checked = classmethod(lambda cls, *_, reason=reason: (reason is None, reason))
            _patch(cloud, "check_credentials", checked, "credentials")
            _patch(cloud, "get_user_identities", classmethod(lambda cls: [["local", "local"]]), "credentials")
        _patch(clouds.GCP, "get_image_size", classmethod(lambda cls, *_: 10.0), "creation: asks for an image")
        _patch(clouds.GCP, "get_project_id", classmethod(lambda cls, dryrun=False: "local-project"), "credentials")
        for name in ("setup_gcp_authentication", "setup_runpod_authentication"):
            _patch(authentication, name, authentication.configure_ssh_info, "creation: puts a key into the account")
