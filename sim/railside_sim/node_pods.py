"""The pods of the node, as the API server and the runtime keep them while kubelets come and go.

It answers for which pods count for whom: for the scheduler, for the kubelet, for a kubelet that starts. It must
not deal or start anything.
"""

from collections.abc import Iterator

import msgspec

from railside_sim.pod_spec import Pod
from railside_sim.pod_worker import PodWorker
from railside_sim.pods import Failed, Outcome, Pending
from railside_sim.runtime import NodeReader


class NodePod:
    """One pod: what was asked, its containers, and what became of it last; None while it is being admitted."""

    def __init__(self, pod: Pod, worker: PodWorker) -> None:
        self.pod = pod
        self.worker = worker
        self.outcome: Outcome | None = None
        self.is_bound = False
        """Whether it has been given to this node."""
        self.is_taken = False
        """Whether the kubelet of now has taken it up."""

    @property
    def counts(self) -> bool:
        """Whether the scheduler counts what it asks for."""
        return self.is_bound and not isinstance(self.outcome, Failed)


class NodePods:
    """Pods by key. A pod that ended is here no longer, whatever the kubelet still remembers."""

    def __init__(self, read_node: NodeReader, *, finds_restarted: bool) -> None:
        self._read_node = read_node
        self._finds_restarted = finds_restarted
        self._pods: dict[str, NodePod] = {}
        self._made = 0
        self._complete = False

    def __getitem__(self, key: str) -> NodePod:
        """One pod. Raises KeyError."""
        return self._pods[key]

    def __iter__(self) -> Iterator[NodePod]:
        return iter(tuple(self._pods.values()))

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The last outcome of every pod by key."""
        return {key: each.outcome for key, each in self._pods.items() if each.outcome is not None}

    @property
    def complete(self) -> bool:
        """Whether all pods of before a restart have been admitted again."""
        return self._complete

    def active(self) -> frozenset[str]:
        """UIDs that the kubelet of now takes for alive; those that terminate are."""
        return frozenset(each.pod.uid for each in self if each.is_taken and each.counts)

    def found_running(self, uid: str, container: str) -> bool:
        """Whether a kubelet that starts now takes the container for running."""
        workers = (each.worker for each in self if each.pod.uid == uid)
        return any(one.found_running(container, also_restarted=self._finds_restarted) for one in workers)

    def accept(self, pod: Pod) -> NodePod:
        """A new pod, or one that still waits for room. Raises ValueError for one that is on the node."""
        known = self._pods.get(pod.key)
        if known is not None and known.counts:
            raise ValueError(f"pod {pod.key} is admitted already")
        if known is not None and isinstance(known.outcome, Pending):
            return known
        made = self._with_uid(pod)
        self._pods[pod.key] = NodePod(made, PodWorker(made, self._read_node))
        return self._pods[pod.key]

    def remove(self, key: str) -> None:
        """The pod has ended. Raises KeyError."""
        del self._pods[key]

    def kubelet_starts(self) -> None:
        """A kubelet knows no pod until it has admitted it again."""
        for each in self:
            each.is_taken = False
        self._complete = not any(each.counts for each in self)

    def all_taken(self) -> None:
        """The kubelet has admitted again what there was."""
        self._complete = True

    def _with_uid(self, pod: Pod) -> Pod:
        self._made += 1
        return msgspec.structs.replace(pod, uid=pod.uid or f"{self._made:08x}-0000-4000-8000-000000000000")
