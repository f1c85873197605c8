"""How the kernel writes numbers, states and addresses in sysfs, and what each text means.

It must not know what a number is for, and takes any text: what makes no sense has a value that says so.
"""

import re
from typing import Final

from railside_proto.machine import LinkLayer, NetnsMode, PciAddress, PortState

MAJOR_BITS: Final = 12
MINOR_BITS: Final = 20
"""Of a device number, as the kernel packs it (include/linux/kdev_t.h)."""

_WORDS: Final = re.compile(r"[A-Za-z ]{1,40}")
_GUID: Final = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}")
_NAME_PARTS: Final = re.compile(r"(\D*)(\d{0,18})")
_LONGEST_LABEL: Final = 128


def link_layer(text: str | None) -> LinkLayer:
    """What a port speaks; what is not known is UNSPECIFIED."""
    known = {layer.value: layer for layer in LinkLayer}
    return known.get(text or "", LinkLayer.UNSPECIFIED)


def port_state(text: str | None) -> PortState:
    """``4: ACTIVE`` by its number; what cannot be read is as good as down."""
    numbered = {state.number: state for state in PortState}
    number = integer((text or "").partition(":")[0])
    return numbered.get(-1 if number is None else number, PortState.DOWN)


def phys_state(text: str | None) -> str:
    """``5: LinkUp`` is LinkUp; empty for what cannot be read or passed on."""
    word = (text or "").partition(":")[2].strip()
    return word if _WORDS.fullmatch(word) else ""


def netns_mode(text: str | None) -> NetnsMode | None:
    """``Y`` is shared and ``N`` exclusive, as the kernel prints a yes or no."""
    return {"Y": NetnsMode.SHARED, "N": NetnsMode.EXCLUSIVE}.get(text or "")


def guid(text: str | None) -> str:
    """``5c25:7303:00a1:4c10``; empty for anything else and for a GUID that is not set, which is all zero."""
    found = (text or "").lower()
    return found if _GUID.fullmatch(found) and found.strip("0:") else ""


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts mlx5_2 before mlx5_10."""
    return tuple((letters, int(digits or 0)) for letters, digits in _NAME_PARTS.findall(name))


def short(text: str | None) -> str:
    """A label that may be printed and passed on, at most a line of it; unprintable letters are escaped."""
    kept = (text or "")[:_LONGEST_LABEL]
    return kept if kept.isprintable() else ascii(kept)[1:-1]


def pci_address(text: str) -> PciAddress:
    """One spelling for sysfs (``0000:18:00.0``) and NVIDIA's tools (``00000000:18:00.0``)."""
    domain, _, rest = text.lower().partition(":")
    return PciAddress(f"{int(domain, 16):04x}:{rest}") if _is_hex(domain) else PciAddress(text.lower())


def _is_hex(text: str) -> bool:
    return bool(text) and all(letter in "0123456789abcdef" for letter in text)


def device_numbers(text: str | None) -> tuple[int, int] | None:
    """``231:192``; None for what no device of this kernel can have by its bits."""
    major, minor = (integer(part) for part in ((text or "").partition(":")[::2]))
    if major is None or minor is None or not 0 <= major < 1 << MAJOR_BITS or not 0 <= minor < 1 << MINOR_BITS:
        return None
    return (major, minor)


def integer(text: str | None) -> int | None:
    """A decimal or ``0x`` number, as the kernel prints both; None for anything else, absurd numbers among it."""
    try:
        number = int(text or "", 0)
    except ValueError:
        return None
    return number if abs(number) < 1 << 32 else None


def leading_number(text: str | None) -> float:
    """``400 Gb/sec (4X NDR)`` is 400.0."""
    match = re.match(r"\d{1,9}(\.\d{1,9})?", text or "")
    return float(match.group()) if match else 0.0
