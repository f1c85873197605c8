"""Kubelets of several releases, as far as a plugin beside them can tell: what they lack, and how they register.

It answers for the differences that were read in Kubernetes' sources, each with its place. All else is as in 1.34,
which is the harder one to live with: until 1.24 a kubelet that starts looks at no health of held ids, and survives
one that is missing (pkg/kubelet/cm/devicemanager: devicesToAllocate, and allDevices by value). It must not do
anything itself.
"""

from dataclasses import dataclass
from typing import Final, Literal

Verb = Literal["List", "GetAllocatableResources", "Get"]
"""Of PodResources v1."""


@dataclass(frozen=True, kw_only=True)
class Age:
    """One release's kubelet, with its feature gates as they come."""

    release: str
    tells: frozenset[Verb] = frozenset({"List", "GetAllocatableResources", "Get"})
    """What its PodResources v1 knows. With none there is v1alpha1 alone, which nobody of ours speaks
    (pkg/kubelet/server, ListenAndServePodResources; k8s.io/kubelet, pkg/apis/podresources)."""
    switched_off: frozenset[Verb] = frozenset()
    """What it knows and refuses, as the feature gate is off (pkg/features; pkg/kubelet/apis/podresources)."""
    asks_for_preference: bool = True
    """Whether it knows GetPreferredAllocation, which came with 1.19 (devicemanager: devicesToAllocate)."""
    registers: Literal["at once", "by resource", "by path"] = "by resource"
    """How it keeps registrations.

    ``at once``: Register is answered, then the plugin dialled, with the options of the request; the end of a
    stream ends its own registration alone (devicemanager: addEndpoint, runEndpoint).
    ``by resource``: the plugin is dialled first and asked for its options; whichever stream of a resource ends,
    the plugin that registered last is hung up on (plugin/v1beta1/handler.go: runClient).
    ``by path``: the end of a stream ends the registration of its socket's path; a path that is connected is
    refused and its connection forgotten, so that its end is not noticed and the path is refused for good
    (handler.go: connectClient; manager.go: PluginConnected).
    """
    finds_restarted: bool = False
    """Whether its start finds a container running that has been restarted before. 1.34 goes by any one of the
    container's lives, which may be one that has ended (devicemanager: isContainerAlreadyRunning)."""
    keeps_sockets_alone: bool = True
    """Whether its start leaves other files than sockets in the plugins' folder (devicemanager: removeContents)."""
    writes_nodes: bool = True
    """Whether its checkpoint has ids by NUMA node, and not in one list (devicemanager/checkpoint, V1 and V2)."""


_LIST: Final = frozenset[Verb]({"List"})
_LIST_AND_ALLOCATABLE: Final = frozenset[Verb]({"List", "GetAllocatableResources"})

KUBELET_1_18: Final = Age(
    release="1.18.20",
    tells=frozenset(),
    asks_for_preference=False,
    registers="at once",
    keeps_sockets_alone=False,
    writes_nodes=False,
)
KUBELET_1_20: Final = Age(release="1.20.15", tells=_LIST, registers="at once", keeps_sockets_alone=False)
KUBELET_1_22: Final = Age(
    release="1.22.17",
    tells=_LIST_AND_ALLOCATABLE,
    switched_off=frozenset({"GetAllocatableResources"}),
    registers="at once",
    keeps_sockets_alone=False,
)
KUBELET_1_24: Final = Age(
    release="1.24.17", tells=_LIST_AND_ALLOCATABLE, registers="at once", keeps_sockets_alone=False
)
KUBELET_1_34: Final = Age(release="1.34.4")
KUBELET_1_37: Final = Age(release="1.37.2", registers="by path", finds_restarted=True)
AGES: Final = (KUBELET_1_18, KUBELET_1_20, KUBELET_1_22, KUBELET_1_24, KUBELET_1_34, KUBELET_1_37)
"""The platform's document names 1.20 and 1.24; 1.22 lies between them, and 1.18 before all that it names."""
