"""One id of a device plugin's list, as the kubelet keeps it.

It answers for the value and for the panic that a missing one ends in. It must not know who holds it.
"""

from collections.abc import Mapping

import msgspec


class ListedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One id of a plugin's list. ``numa`` is None where no TopologyInfo came with it."""

    id: str
    healthy: bool
    numa: frozenset[int] | None = None


Listed = Mapping[str, ListedDevice]
"""The devices of one resource by id."""


class KubeletCrashedError(Exception):
    """Where the real kubelet ends by SIGSEGV: it looks up an id that its plugin no longer lists.

    Raised to whoever admits or re-admits; the embedded kubelet has stopped by then, and may be started again.
    """

    def __init__(self, device: str, resource: str, where: str) -> None:
        super().__init__(
            "panic: runtime error: invalid memory address or nil pointer dereference:"
            f" {where} looks up {device} of {resource}, which the plugin does not list",
        )


def looked_up(listed: Listed, device: str, resource: str, where: str) -> ListedDevice:
    """The device, as the kubelet finds it where it is sure of finding it. Raises KubeletCrashedError."""
    try:
        return listed[device]
    except KeyError:
        raise KubeletCrashedError(device, resource, where) from None
