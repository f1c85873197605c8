"""Whether a list carries NUMA hints: all of its seats or none, as the kubelet never deals a bare id among hinted.

It must not know seats. Hints and bareness change places only while nothing is held: a hint that appears on ids in
a pod's hands costs the pod its life when the kubelet restarts.
"""

from collections.abc import Iterable

from railside_agent.holders import HeldId
from railside_agent.rules import AdvertiseTopology
from railside_proto.machine import Hca
from railside_proto.pool import Mode
from railside_proto.record import TopologyPolicy


def is_hinted(
    hcas: Iterable[Hca], held: Iterable[HeldId], *, before: bool | None, wanted: bool, busy: bool = False
) -> bool:
    """Whether the list has hints now: as what is held was dealt, else as ``wanted`` and the machine can tell.

    ``before`` is what the last list was, None if there was none; it stays while a call is under way (``busy``).
    """
    recorded = [bool(one.numa_nodes) for one in held]
    if recorded:
        return any(recorded)
    if busy and before is not None:
        return before
    return wanted and any(hca.numa_node is not None for hca in hcas)


def wants_hints(setting: AdvertiseTopology, mode: Mode | None, policy: TopologyPolicy | None) -> bool:
    """Whether hints help under the kubelet's policy; an unknown one is taken for the best-effort of the document.

    Under ``none`` they are read by nobody, and without them a container's HCAs may be chosen from all zones. Under
    ``restricted`` a wide pod could never be admitted in ib-shared-multi: its seats fit one NUMA node, and its GPUs
    do not.
    """
    if setting != "auto":
        return setting == "always"
    if policy is TopologyPolicy.NONE:
        return False
    return policy is not TopologyPolicy.RESTRICTED or mode is not Mode.IB_SHARED_MULTI
