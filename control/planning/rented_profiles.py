"""Measured profiles of rented nodes: made of what a node said of itself, and found again for plans."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from control.profiles.engine_home import releases
from control.profiles.fitting import fit_rows
from control.profiles.rented_sweep import RentedSweep
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from control.profiles.subject import RentedSubject
from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.step_terms import VERSION
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile

CUDA = "cuda"
_OURS = "medley-serving"


def rented_profile(
    swept: RentedSweep, config: NodeConfig, model: ModelSpec, engine: str, tensor_parallel: int, now: str
) -> StoredProfile:
    """Fit what a node measured. `model`: as the engine holds it; `now`: ISO 8601, UTC. Raises SweepError."""
    machine = swept.machine
    gpu = machine.gpus[0].name if machine.gpus else ""
    subject = RentedSubject(
        swept.offer.cloud, swept.offer.instance_type, config.id, machine.device, gpu, len(machine.gpus),
        machine.driver, machine.processor, machine.cpu_cores, tensor_parallel, engine, machine.releases, VERSION,
        model.id, model.revision, model.dtype,
    )  # fmt: skip
    terms, errors = fit_rows(config.id, swept.rows)
    profile = NodeProfile(
        subject=subject.fingerprint,
        measured_at=now,
        machine=subject.machine,
        engine=engine,
        model=model.id,
        dtype=model.dtype,
        config=config.id,
        cpu_cores=machine.cpu_cores,
        step_terms_s=terms,
        errors=errors,
        pipeline=swept.pipeline,
        hand_off=swept.hand_off,
        device=machine.device,
        tensor_parallel=tensor_parallel,
        pair=swept.pair,
    )
    return StoredProfile(FORMAT, load_gpus()[config.gpu], config, profile, swept.rows, subject)


def known_rented(
    store: ProfileStore, served: Collection[ServedModel], configs: Collection[str]
) -> Iterator[NodeProfile]:
    """Yield profiles that plans of these models on these configurations rest on, those that count later: of GPUs that
    this release has measured. Steps take as long whatever the network, so that one network class of a GPU speaks for
    others that nobody measured; hops do not. Beside a node of several GPUs come those of fewer, which its replicas are
    timed by."""
    models = {
        (one.engine, one.model.id, one.model.revision, one.model.dtype) for each in served for one in each.by_engine()
    }
    stored = [(each.rented, each.profile) for each in store.all() if each.rented is not None and _counts(each.rented)]
    found = [p for s, p in stored if (s.engine, s.model, s.revision, s.dtype) in models]
    fitting = [
        (profile.config == config, profile.measured_at, config, profile)
        for profile in found
        for config in configs
        if _machine(config) == _machine(profile.config)
    ]
    whole = {_machine(config) for _, _, config, _ in fitting}
    parts = [p for p in found if _machine(p.config) not in whole and any(_is_part(p.config, each) for each in whole)]
    yield from sorted(parts, key=lambda each: (each.measured_at, each.config))
    for is_itself, _, config, profile in sorted(fitting, key=lambda each: each[:3]):
        yield profile if is_itself else replace(profile, config=config, pair=None)


def _machine(config: str) -> str:
    """GPU and count of a node configuration, whatever its network."""
    return config.partition("/")[0]


def _is_part(config: str, whole: str) -> bool:
    """Tell whether a node of a configuration could be a replica in `whole`: GPU and count."""
    (gpu, count), (of_gpu, of_count) = (each.split(":") for each in (_machine(config), whole))
    return gpu == of_gpu and int(of_count) % int(count) == 0


def _counts(subject: RentedSubject) -> bool:
    of_ours = [each for each in subject.releases if each.startswith(f"{_OURS} ")]
    current = [each for each in releases(subject.engine) if each.startswith(f"{_OURS} ")]
    is_current = subject.terms == VERSION and of_ours == current
    return is_current and subject.device == CUDA
