"""Which GPU an id of the kubelet means. It must not read anything."""

from collections.abc import Iterable

import msgspec

from railside_proto.machine import Gpu, Machine


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """An id, and the GPU of this machine that it names; None where it names none."""

    id: str
    gpu: Gpu | None


def locate(ids: Iterable[str], machine: Machine) -> tuple[Located, ...]:
    """Each of ``ids`` with its GPU."""
    by_uuid = {gpu.uuid: gpu for gpu in machine.gpus if gpu.uuid}
    return tuple(Located(id=one, gpu=by_uuid.get(one.partition("::")[0])) for one in ids)
