"""Several plugins' Allocate answers made into one container's options.

It answers for what the kubelet does with conflicts (pkg/kubelet/cm/devicemanager: deviceRunContainerOptions): the
first that comes wins, without a word to anybody. It must not look at any path.
"""

from collections.abc import Iterable

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse


def merged(answers: Iterable[ContainerAllocateResponse]) -> ContainerAllocateResponse:
    """One answer: each variable, device path and mount path once, from the first answer that has it."""
    one = ContainerAllocateResponse()
    for answer in answers:
        for name, value in answer.envs.items():
            if name not in one.envs:
                one.envs[name] = value
        for device in answer.devices:
            if device.container_path not in {known.container_path for known in one.devices}:
                one.devices.append(device)
        for mount in answer.mounts:
            if mount.container_path not in {known.container_path for known in one.mounts}:
                one.mounts.append(mount)
    return one
