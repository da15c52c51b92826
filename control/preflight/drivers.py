"""GPUs, drivers and compilers of rented nodes, against what engines are built for."""

from collections.abc import Iterator

from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned, cloud_of, engines_for, serves
from templates_lib.values.cuda import CudaBuild, image_driver
from templates_lib.values.engines import ENGINES, compiling
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import UnknownHardwareError, gpu, node_config_from_id

NAME = "image.driver"


def of_drivers(planned: Planned, cloud: str, image: str) -> Iterator[Finding]:
    """Yield a finding for each engine and GPU that the plan has on `cloud`. `image`: the one that was chosen for its
    nodes; empty: its own."""
    for engine, name in sorted(_pairs(planned, cloud)):
        subject = f"{name} on {cloud}, engine {engine}"
        build = ENGINES[engine].cuda if engine in ENGINES else None
        if build is None:
            what = f"nobody says which CUDA engine {engine} is built for: a node shows it when it starts"
            yield Finding(NAME, subject, Status.UNKNOWN, what)
            continue
        status, detail = _judged(build, gpu(name), cloud, image)
        yield Finding(NAME, subject, status, detail)


def of_compilers(planned: Planned, cloud: str, image: str) -> Iterator[Finding]:
    """Yield a finding for each engine of the plan on `cloud` that compiles kernels there. `image`: as of
    `of_drivers`."""
    by_engine: dict[str, list[float]] = {}
    for engine, name in sorted(_pairs(planned, cloud)):
        if compiling([engine]) and gpu(name).vendor == "nvidia":
            by_engine.setdefault(engine, []).append(float(gpu(name).compute_capability))
    for engine, capabilities in by_engine.items():
        found = [None if image else image_driver(cloud, each) for each in capabilities]
        has = all(each is not None and each.compiler for each in found)
        which = "SkyPilot's image has gcc"
        if not has:
            which = f"whether {image or 'the image of its machines'} has one shows at the first launch, before anything"
            which += " is installed"
        subject, status = f"{cloud}, engine {engine}", Status.PASS if has else Status.UNKNOWN
        yield Finding("image.compiler", subject, status, f"it compiles kernels with the node's C compiler; {which}")


def _pairs(planned: Planned, cloud: str) -> set[tuple[str, str]]:
    found = set()
    for served in planned.world.recipe.served:
        for each in planned.plan.instances:
            if cloud_of(each) != cloud or not serves(each, served):
                continue
            for config in each.nodes:
                try:
                    gpu_name = node_config_from_id(config).gpu
                except UnknownHardwareError:  # a machine without GPU
                    continue
                found |= {(engine, gpu_name) for engine in engines_for(each, served)}
    return found


def _judged(build: CudaBuild, device: Gpu, cloud: str, image: str) -> tuple[Status, str]:
    needs = f"its CUDA {build.release} needs driver {build.least_driver} or later"
    if image:
        return Status.UNKNOWN, f"{needs}: whether {image} has it shows at the first launch"
    if device.vendor != "nvidia":
        return Status.FAIL, f"nodes install CUDA, which runs on no GPU of {device.vendor}: plan GPUs of NVIDIA"
    capability = float(device.compute_capability)
    if capability < build.least_capability:
        what = (
            f"its CUDA {build.release} has kernels for compute capability {build.least_capability:g} and later, and "
            f"{device.name} has {capability:g}: leave it out of `gpus`, or give nodes an image with an engine for it"
        )
        return Status.FAIL, what
    found = image_driver(cloud, capability)
    if found is None:
        return Status.UNKNOWN, f"{needs}: what its machines have shows at the first launch"
    if found.driver < build.least_driver:
        what = f"{needs}, and SkyPilot's image for {device.name} has {found.driver}: choose an image (--image)"
        return Status.FAIL, what
    return Status.PASS, f"{needs}; SkyPilot's image has {found.driver}"
