"""The kubelet's checkpoint: what it has dealt to whom, in the form of the real one.

It answers for the form alone (pkg/kubelet/cm/devicemanager/checkpoint), whose checksum only the real kubelet can
make: ours is 0. It must not decide when it is written.
"""

import base64
from collections.abc import Iterable

import msgspec

from railside_sim.dealing import Held
from railside_sim.selection import ListedDevice

_NO_NODE = "-1"


def checkpoint(held: Iterable[Held], listed: Iterable[ListedDevice]) -> bytes:
    """The file's content: ids by the NUMA node that the plugin's list gives them, -1 without one."""
    devices = {device.id: device for device in listed}
    every = list(held)
    entries = [_entry(one, devices) for one in every]
    registered = sorted(device.id for device in devices.values() if device.healthy)
    resources = sorted({one.request.resource for one in every})
    data = {"PodDeviceEntries": entries, "RegisteredDevices": dict.fromkeys(resources, registered)}
    return msgspec.json.encode({"Data": data, "Checksum": 0})


def _entry(held: Held, devices: dict[str, ListedDevice]) -> dict[str, object]:
    by_node: dict[str, list[str]] = {}
    for seat in held.seats:
        for node in _nodes(devices.get(seat)):
            by_node.setdefault(node, []).append(seat)
    return {
        "PodUID": held.request.name,
        "ContainerName": held.request.name,
        "ResourceName": held.request.resource,
        "DeviceIDs": by_node,
        "AllocResp": base64.b64encode(held.answer.SerializeToString()).decode(),
    }


def _nodes(device: ListedDevice | None) -> list[str]:
    known = device.numa if device is not None and device.numa else ()
    return [str(node) for node in sorted(known)] or [_NO_NODE]
