"""What a part of Medley is made of, as a CycloneDX 1.6 document: packages with versions, licences and hashes.

Of the control plane it is what is installed here and Medley needs, by the metadata of the installed distributions; of
what nodes install, it is their locks, wheel by wheel (`templates_lib/data/engines`).
"""

import importlib.metadata
import re
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import Distribution, PackageNotFoundError
from importlib.resources import files
from typing import Any

NAME = "medley-serving"
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST = 200
"""Characters of a licence's name: some distributions have the whole text there."""
_UNKNOWN = ("", "UNKNOWN")


class Part(StrEnum):
    CONTROL = "control"
    """What is installed here: control plane, API, gateway, commands."""
    AGENT = "agent"
    """What nodes install for the agent and our own engines."""
    VLLM = "vllm"
    """What nodes install for vLLM."""


def bill_of_materials(part: Part) -> dict[str, Any]:
    """The document, without a serial number and a time: the same packages give the same bytes."""
    version = importlib.metadata.version(NAME)
    own = _purl(NAME, version)
    installed = list(_installed())
    components = map(_component, installed) if part is Part.CONTROL else _locked(part)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": own, "name": NAME, "version": version, "purl": own},
            "properties": [{"name": "medley:part", "value": part.value}],
        },
        "components": sorted(components, key=lambda each: str(each["bom-ref"])),
        "dependencies": _dependencies(installed, own) if part is Part.CONTROL else [],
    }


def _installed() -> Iterator[Distribution]:
    """Yield what Medley requires and has here, what that requires, and so on; Medley itself apart."""
    seen, ahead = {_normal(NAME)}, _requires(importlib.metadata.distribution(NAME))
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except PackageNotFoundError:  # of an extra, or of another platform
            continue
        ahead |= _requires(found)
        yield found


def _requires(distribution: Distribution) -> set[str]:
    found = (_REQUIRED.match(each) for each in distribution.requires or ())
    return {_normal(match[0]) for match in found if match is not None}


def _component(distribution: Distribution) -> dict[str, Any]:
    said = distribution.metadata
    found = (each for key in ("License-Expression", "License") for each in said.get_all(key) or ())
    licence = next((each for each in found if each.strip()), "")
    if licence.strip() in _UNKNOWN or len(licence) > _LONGEST or "\n" in licence:
        classified = (each for each in said.get_all("Classifier") or () if each.startswith("License ::"))
        licence = next((each.rpartition(":: ")[2] for each in classified), "")
    return _library(said["Name"], distribution.version) | (
        {"licenses": [{"license": {"name": licence}}]} if licence else {}
    )


def _dependencies(installed: list[Distribution], own: str) -> list[dict[str, Any]]:
    refs = {_normal(each.metadata["Name"]): _purl(each.metadata["Name"], each.version) for each in installed}
    every = [(own, importlib.metadata.distribution(NAME)), *((refs[_normal(d.metadata["Name"])], d) for d in installed)]
    return [
        {"ref": ref, "dependsOn": sorted(refs[name] for name in _requires(each) if name in refs)}
        for ref, each in sorted(every, key=lambda pair: pair[0])
    ]


def _locked(part: Part) -> Iterator[dict[str, Any]]:
    """Yield what the lock has: each package at one version, with the hashes of all files that may be its."""
    text = (files("templates_lib") / f"data/engines/{part.value}.lock").read_text()
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M):
        head = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", block)
        if head is not None:
            hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
            yield _library(*head.groups()) | {"hashes": [{"alg": "SHA-256", "content": each} for each in hashes]}


def _library(name: str, version: str) -> dict[str, Any]:
    purl = _purl(name, version)
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _purl(name: str, version: str) -> str:
    """As of the package-URL specification, type `pypi`."""
    return f"pkg:pypi/{_normal(name)}@{version.replace('+', '%2B')}"


def _normal(name: str) -> str:
    """As of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
