"""Finds the GPUs among a machine's functions, and what their driver says of them.

It must not read anything, and must not call anything a GPU by its vendor alone: switches carry the same id.
"""

import re
from collections.abc import Mapping
from typing import Final

from railside_agent.kernel_text import integer, pci_address, short
from railside_agent.places import Places
from railside_agent.raw_machine import RawFunction, RawMachine
from railside_proto.machine import Gpu, by_address

_VENDORS: Final = {"0x10de": "nvidia", "0x1002": "amd"}
_CLASSES: Final = {
    "nvidia": ("0x0300", "0x0302"),  # display and 3D controllers; 0x0680 is an NVSwitch
    "amd": ("0x0300", "0x0380", "0x1200"),
}
_DRIVER_LINE: Final = re.compile(r"^(?P<key>[^:\n]+):[ \t]*(?P<value>[^\n]*)$", re.MULTILINE)


def gpus(raw: RawMachine, places: Places) -> tuple[Gpu, ...]:
    """Every GPU, by address."""
    told: dict[str, str | None] = {pci_address(gpu.address): gpu.information for gpu in raw.driver_gpus}
    found = [_gpu(function, places, told) for function in raw.functions]
    return tuple(sorted((gpu for gpu in found if gpu is not None), key=lambda gpu: by_address(gpu.address)))


def _gpu(function: RawFunction, places: Places, told: Mapping[str, str | None]) -> Gpu | None:
    address = pci_address(function.address)
    vendor = _VENDORS.get(function.vendor or "", "nvidia" if address in told else "")
    if not (function.pci_class or "").startswith(_CLASSES.get(vendor, ("none",))):
        return None
    facts = {line["key"].strip(): line["value"].strip() for line in _DRIVER_LINE.finditer(told.get(address) or "")}
    place = places.find(address)
    return Gpu(
        address=address,
        path=place.path,
        numa_node=place.numa_node,
        told_by_file=place.told_by_file,
        vendor=vendor,
        model=short(facts.get("Model")),
        uuid=_uuid(facts.get("GPU UUID")),
        index=integer(facts.get("Device Minor")),
    )


def _uuid(text: str | None) -> str | None:
    """The driver prints question marks for a GPU that nothing has used yet."""
    return short(text) if text and "?" not in text else None
