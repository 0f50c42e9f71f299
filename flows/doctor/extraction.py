"""What extraction uses: extractors and plug-ins, model files, container engines, GPUs. Needs the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version
from rich import filesize

from flows.clusters.gpu_sharing import gpus_here, processes_of
from flows.clusters.settings import LocalCluster
from flows.doctor.findings import Finding, State
from flows.settings import Settings
from storyframes.plug_ins import (
    CHECK,
    COMMANDS,
    EXPORT_FORMATS,
    EXTRACTORS,
    FORGET,
    REPORT_PAGES,
    SETTINGS,
    installed_plug_ins,
    origin,
)
from tasks.extractors.availability import overview
from tasks.extractors.openface.extractor import Backend
from tasks.extractors.registry import broken, build_extractors, model_files
from tasks.extractors.settings import LEAST_GPU_SHARE
from tasks.models.libraries import torchvision_mismatch
from tasks.planning.parts import gpu_needs
from tasks.planning.selection import selected_extractors
from tasks.tools.hpc_engines import installed_engines, no_engine

_PYTORCH_BUILDS = "https://download.pytorch.org/whl"


def look_at_extraction(settings: Settings, *, asked: bool) -> Iterator[Finding]:
    """What is here; a feature that a configuration asks for and that cannot be extracted is a fault.

    Args:
        asked: whether a configuration says which features have to work.
    """
    requested = selected_extractors(build_extractors(settings, ""), settings.features)
    states = overview(settings)
    can = [state.feature for state in states if not state.missing]
    yield Finding("extractors", State.HERE, ", ".join(can))
    for state in states:
        if state.missing:
            how = State.FAULT if asked and state.feature in requested else State.GAP
            yield Finding(f"extractor {state.feature}", how, state.missing)
    yield from _plug_ins()
    yield from _faces(settings, can)
    yield from _models()
    yield from _torchvision()
    yield _engines()
    yield _gpus(settings)


def _plug_ins() -> Iterator[Finding]:
    groups = (EXTRACTORS, COMMANDS, SETTINGS, REPORT_PAGES, EXPORT_FORMATS, FORGET, CHECK)
    origins = {origin(point) for group in groups for point in installed_plug_ins(group)}
    yield Finding("distributions", State.HERE, ", ".join(sorted(origins)) or "none")
    for point, why in broken().items():
        advice = f"repair it, or 'pip uninstall {point.split()[0]}'"
        yield Finding("distribution that cannot be used", State.GAP, f"{point}: {why}", advice)


def _faces(settings: Settings, can: list[str]) -> Iterator[Finding]:
    """Whether a default extraction gives faces of a video alone, and how to get them."""
    reads_csv = settings.section("openface").model_dump().get("backend") == Backend.CSV
    if not reads_csv or {"face", "mediapipe", "pyfeat"} & set(can):
        return
    yield Finding(
        "faces",
        State.GAP,
        "openface reads CSVs that OpenFace wrote before; of a video alone there are no faces",
        "[openface] backend = 'container' or 'binary' (docs/openface.md; its licence is academic), or the feature "
        "face (docs/mediapipe.md) or pyfeat (docs/pyfeat.md: action units)",
    )


def _models() -> Iterator[Finding]:
    models = model_files().values()
    here = [model.name for model in models if model.path_here]
    yield Finding("models", State.HERE, ", ".join(here) or "none")
    for model in models:
        if model.name in here:
            continue
        size = f" ({filesize.decimal(model.bytes)})" if model.bytes else ""
        advice = f"'storyframes models fetch {model.name}'{size}" if model.sha256 else f"put it at {model.path}"
        yield Finding(f"model {model.name}", State.GAP, f"not here; for {model.about}", f"{advice}, if you want it")


def _torchvision() -> Iterator[Finding]:
    """A torchvision that the user's own programs cannot import, with the line that replaces it."""
    if not (why := torchvision_mismatch()):
        return
    torch = Version(version("torch"))
    builds = f" --index-url {_PYTORCH_BUILDS}/{torch.local}" if torch.local else ""
    line = f"pip install --force-reinstall torch=={torch.public} torchvision{builds}"
    what = f"{why}; storyframes gets along, but 'import torchvision' fails in your own programs"
    yield Finding("torchvision", State.GAP, what, f"take both from one place: {line}")


def _engines() -> Finding:
    """Those that are installed, and what each of them leaves to others."""
    engines = [
        engine.name + (f" (does not limit {engine.unenforced})" if engine.unenforced else "")
        for engine in installed_engines()
    ]
    if engines:
        return Finding("container engines", State.HERE, ", ".join(engines))
    return Finding("container engines", State.GAP, "none", no_engine())


def _gpus(settings: Settings) -> Finding:
    """What NVIDIA's driver shows, whether the PyTorch here can use it, and how many processes share each."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "absent"
    gpus = gpus_here()
    if not gpus:
        what = f"none that nvidia-smi shows; features are made on processors (torch {torch})"
        return Finding("GPU", State.HERE, what)
    what = "; ".join(gpu.shown for gpu in gpus)
    if "+cpu" in torch:
        advice = "install PyTorch's build for it to compute there ([resnet50] device)"
        return Finding("GPU", State.GAP, f"{what}, but torch {torch} is the build for processors", advice)
    cluster = settings.cluster
    if isinstance(cluster, LocalCluster) and not cluster.gpus:
        cluster = cluster.model_copy(update={"gpus": len(gpus)})
    needs = gpu_needs(settings, settings.features)
    sharing = processes_of(cluster, needs or [{"GPU": LEAST_GPU_SHARE}])
    what += f" (torch {torch})"
    if sharing:
        when = "" if needs else " where a feature has device = 'cuda'"
        what += f"; {sharing} process{'es share' if sharing > 1 else ' uses'} each{when}"
    return Finding("GPU", State.HERE, what)
