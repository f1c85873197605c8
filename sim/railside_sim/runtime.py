"""A container runtime's part in device plugins: from an Allocate answer to the nodes in a container.

It answers for the walk that containerd's CRI plugin makes at every container create (pkg/oci, getDevices): links
in the host path are resolved, a folder is walked and each node in it stands under the container path, anything
else in it is skipped without a word. It must not start anything, and must not know what is in a node.
"""

import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from railside_proto.machine import DeviceNode
from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DeviceSpec
from railside_sim.pods import ContainerDevice, ContainerMount

NodeReader = Callable[[Path], DeviceNode | None]
"""The device node at a path, not following links; None where there is no node."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """What a created container sees of its devices."""

    devices: tuple[ContainerDevice, ...]
    mounts: tuple[ContainerMount, ...]
    envs: dict[str, str]


class CannotCreate(msgspec.Struct, frozen=True):
    """The runtime's refusal; the kubelet shows it as CreateContainerError and tries again."""

    reason: str


def create_container(answer: ContainerAllocateResponse, read_node: NodeReader) -> Container | CannotCreate:
    """Walks every device of ``answer`` as the host has it now. Blocks on files; call it in a thread."""
    try:
        devices = [device for spec in answer.devices for device in _devices(spec, read_node)]
    except OSError as error:
        missing = str(error.strerror).lower()
        return CannotCreate(f"failed to generate spec: lstat {error.filename}: {missing}")
    except NotADeviceError as error:
        return CannotCreate(f"failed to generate spec: not a device node: {error}")
    return Container(
        devices=tuple(sorted(devices, key=lambda device: device.path)),
        mounts=tuple(_mounts(answer)),
        envs=dict(answer.envs),
    )


class NotADeviceError(Exception):
    """A DeviceSpec names a single path that is no device node; raised and caught in this module."""


def _devices(spec: DeviceSpec, read_node: NodeReader) -> Iterator[ContainerDevice]:
    host = Path(spec.host_path).resolve(strict=True)
    if host.is_dir():
        yield from _walk(host, spec.container_path, spec.permissions, read_node)
    elif (node := read_node(host)) is None:
        raise NotADeviceError(host)
    else:
        yield _device(spec.container_path, node, spec.permissions)


def _walk(folder: Path, inside: str, permissions: str, read_node: NodeReader) -> Iterator[ContainerDevice]:
    for entry in sorted(folder.iterdir()):
        path = posixpath.join(inside, entry.name)
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, path, permissions, read_node)
        elif (node := read_node(entry)) is not None:
            yield _device(path, node, permissions)


def _device(path: str, node: DeviceNode, permissions: str) -> ContainerDevice:
    return ContainerDevice(path=posixpath.normpath(path), node=node, permissions=permissions)


def _mounts(answer: ContainerAllocateResponse) -> Iterator[ContainerMount]:
    for mount in answer.mounts:
        yield ContainerMount(
            container_path=mount.container_path,
            host_path=mount.host_path,
            read_only=mount.read_only,
        )
