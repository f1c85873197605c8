"""CPU lists in the kernel's form, ``0-55,112-167``.

It answers for joining them and for the mask they make. It must not read anything.
"""

from collections.abc import Iterable


def cpus_of(text: str) -> frozenset[int]:
    """The CPU numbers of one list; none for an empty one."""
    ranges = (each.partition("-") for each in text.split(",") if each)
    return frozenset(cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1))


def joined(lists: Iterable[str]) -> str:
    """One list with the CPUs of all, in as few ranges as the kernel prints."""
    cpus = sorted({cpu for text in lists for cpu in cpus_of(text)})
    starts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    ends = [cpu for cpu in cpus if cpu + 1 not in cpus]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in pairs)


def mask_of(text: str) -> str:
    """The list as 32-bit words of hex, highest first, as in ``local_cpus`` and NCCL's ``affinity``."""
    bits = sum(1 << cpu for cpu in cpus_of(text))
    words = max(1, (bits.bit_length() + 31) // 32)
    return ",".join(f"{bits >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))
