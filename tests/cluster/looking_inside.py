"""What a container sees of GPUs and HCAs, as it says itself at its start.

It answers for the question and for reading the answer. It must not know what is right.
"""

from typing import Any, Final

import msgspec

from harness import waiting
from harness.devices import Number
from harness.kubectl import HTTP_OK, Kubectl
from railside_proto.names import CONTAINER_DEVICES, CONTAINER_INFO

INFO: Final = f"{CONTAINER_INFO}/infiniband-rdma"
_END: Final = "that is all"

SAYS: Final = f"""
for node in {CONTAINER_DEVICES}/*; do [ -c $node ] && stat -c 'node %n %t %T' $node; done
echo gpus $NVIDIA_VISIBLE_DEVICES
for name in $(cat {INFO}/hcas 2>/dev/null); do echo hca $name; done
[ -f {INFO}/allocation.json ] && echo told $(cat {INFO}/allocation.json)
echo {_END}
"""
"""Lines of a shell's script."""


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """One container's view."""

    nodes: dict[str, Number]
    """Device nodes of HCAs, by name."""
    gpus: tuple[str, ...]
    """As NVIDIA's runtime is told them."""
    hcas: tuple[str, ...]
    """Names in the info folder."""
    allocation: dict[str, Any]
    """Its allocation.json; empty where there is none."""


def inside(kubectl: Kubectl, pod: str, container: str) -> Inside:
    """What a container with :data:`SAYS` said."""
    text = waiting.until_value(lambda: _said(kubectl, pod, container), f"{container} of {pod} to say what it sees")
    lines = [line.split(" ", 1) for line in text.splitlines() if " " in line]
    nodes = dict(_node(rest) for word, rest in lines if word == "node")
    told = [rest for word, rest in lines if word == "told"]
    return Inside(
        nodes={name: number for name, number in nodes.items() if name.startswith("uverbs")},
        gpus=tuple(one for word, rest in lines if word == "gpus" for one in rest.split(",")),
        hcas=tuple(rest for word, rest in lines if word == "hca"),
        allocation=msgspec.json.decode(told[0]) if told else {},
    )


def _said(kubectl: Kubectl, pod: str, container: str) -> str | None:
    """The whole log; None while it has not come to its end."""
    answer = kubectl.client.get(f"/api/v1/namespaces/default/pods/{pod}/log?container={container}")
    text = answer.body.decode()
    return text if answer.status == HTTP_OK and _END in text else None


def _node(line: str) -> tuple[str, Number]:
    path, major, minor = line.split()
    return path.rpartition("/")[2], Number(int(major, 16), int(minor, 16))
