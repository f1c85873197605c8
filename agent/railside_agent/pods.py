"""The own node's Pods as the agent needs them: who they are, whether they have ended, what they ask for.

It must not conclude from an absence that a pod has ended: an object may be deleted while its containers still run.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from railside_proto.names import LOCALITY, LOCALITY_ENFORCE, MIRROR_POD, STATIC_POD_UID

_MOST_DEPARTED: Final = 512
"""The kubelet's checkpoint forgets them at the next allocation."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Annotations(msgspec.Struct, frozen=True):
    locality: str | None = msgspec.field(name=LOCALITY, default=None)
    locality_enforce: str | None = msgspec.field(name=LOCALITY_ENFORCE, default=None)
    mirror: str | None = msgspec.field(name=MIRROR_POD, default=None)
    static_uid: str | None = msgspec.field(name=STATIC_POD_UID, default=None)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    name: str
    namespace: str
    annotations: _Annotations | None = None
    deletion_timestamp: str | None = None


class _Present(msgspec.Struct, frozen=True):
    """An object of which only its presence counts."""


class _State(msgspec.Struct, frozen=True):
    running: _Present | None = None
    terminated: _Present | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    state: _State | None = None


class _Resources(msgspec.Struct, frozen=True):
    limits: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str
    resources: _Resources | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class PodObject(msgspec.Struct, frozen=True):
    """The few fields of a Pod that are looked at, as the API server spells them."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _PodStatus = _PodStatus()


class PodContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container, or an init container, and the names of the resources that it asks for."""

    name: str
    resources: tuple[str, ...]


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of this node."""

    uid: str
    """The API server's."""
    name: str
    namespace: str
    static_uid: str | None = None
    """For a static pod the UID that the kubelet's checkpoint has."""
    ended: bool
    stopped: bool = False
    """Whether every container has stopped: so the kubelet leaves a pod before it deletes the object."""
    terminating: bool
    called_over: bool = False
    """Whether somebody calls it Succeeded or Failed, and no container of it is known to run: one that the kubelet
    turned away never had any."""
    locality: str | None = None
    locality_enforce: bool = False
    containers: tuple[PodContainer, ...] = ()
    """Init containers first."""

    @property
    def over(self) -> bool:
        """Whether nobody would say that it lives."""
        return self.ended or self.stopped or self.called_over


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of this node, as far as they are known."""

    pods: tuple[Pod, ...] = ()
    by_uid: Mapping[str, Pod] = {}
    """By each UID that the kubelet may use; one that two pods claim is nobody's."""
    departed: tuple[str, ...] = ()
    """UIDs of pods that were deleted when all of their containers had stopped, the latest last."""
    synced: bool = False
    problem: str | None = None

    @property
    def over(self) -> frozenset[str]:
        """UIDs of all pods that are known to be over."""
        return frozenset(self.departed) | {uid for uid, pod in self.by_uid.items() if pod.ended}

    def alive(self, uids: Iterable[str]) -> frozenset[str]:
        """Those of ``uids`` that lived when they were last seen.

        Also while the API server is away: no new pod comes then that could want what one has left.
        """
        found = ((uid, self.by_uid.get(uid)) for uid in uids)
        return frozenset(uid for uid, pod in found if pod is not None and not pod.over)

    def ended(self, uid: str) -> bool | None:
        """True: its containers are done for good. False: it lives, or is on its way out. None: not known."""
        pod = self.by_uid.get(uid)
        return pod.ended if pod is not None else (uid in self.departed or None)


def pods(
    objects: Iterable[PodObject],
    *,
    synced: bool,
    problem: str | None,
    gone: Iterable[PodObject] = (),
    before: Pods | None = None,
) -> Pods:
    """The pods that ``objects`` show, sorted by namespace and name.

    ``gone`` are objects deleted of late, as they were at the end; ``before`` is what was seen last.
    """
    found = tuple(sorted(map(_pod, objects), key=lambda pod: (pod.namespace, pod.name, pod.uid)))
    by_uid = _index(found)
    earlier = before.departed if before else ()
    return Pods(
        pods=found,
        by_uid=by_uid,
        departed=_departed(earlier, map(_pod, gone), by_uid),
        synced=synced,
        problem=problem,
    )


def _departed(earlier: tuple[str, ...], gone: Iterable[Pod], now: Mapping[str, Pod]) -> tuple[str, ...]:
    """Who has gone for good. One that is deleted by force, while its containers run, is not among them."""
    left = (uid for pod in gone if pod.stopped or pod.ended for uid in (pod.uid, pod.static_uid) if uid)
    every = dict.fromkeys((*earlier, *left))
    return tuple(uid for uid in every if uid not in now)[-_MOST_DEPARTED:]


def _index(found: tuple[Pod, ...]) -> Mapping[str, Pod]:
    """By real UID, then by the kubelet's for static pods.

    Whoever may create pods may write any annotation: it must not make one pod speak for another.
    """
    real = {pod.uid: pod for pod in found}
    claims: dict[str, list[Pod]] = {}
    for pod in found:
        if pod.static_uid is not None:
            claims.setdefault(pod.static_uid, []).append(pod)
    return {uid: claiming[0] for uid, claiming in claims.items() if len(claiming) == 1} | real


def _pod(one: PodObject) -> Pod:
    annotations = one.metadata.annotations or _Annotations()
    return Pod(
        uid=one.metadata.uid,
        name=one.metadata.name,
        namespace=one.metadata.namespace,
        static_uid=_static_uid(annotations),
        # A pod that is evicted may be called Failed, without a word of its containers, while they are stopped.
        ended=one.status.phase in _ENDED and _all_stopped(one),
        stopped=_all_stopped(one),
        terminating=one.metadata.deletion_timestamp is not None,
        called_over=one.status.phase in _ENDED and not _any_runs(one.status),
        locality=annotations.locality,
        locality_enforce=annotations.locality_enforce == "true",
        containers=tuple(
            PodContainer(name=each.name, resources=_resources(each))
            for each in (*(one.spec.init_containers or ()), *(one.spec.containers or ()))
        ),
    )


def _all_stopped(one: PodObject) -> bool:
    """Whether each container that the pod has is told to have stopped, or never came to start."""
    statuses = one.status.container_statuses or ()
    stopped = [each.state is not None and each.state.terminated is not None for each in statuses]
    return len(stopped) == len(one.spec.containers or ()) and all(stopped) and not _any_runs(one.status)


def _static_uid(annotations: _Annotations) -> str | None:
    """The kubelet writes one value into both; a static pod seen without its mirror has no object here."""
    return annotations.static_uid if annotations.static_uid == annotations.mirror else None


def _any_runs(status: _PodStatus) -> bool:
    """Controllers may call a pod Failed whose kubelet has not spoken for a while: a running container lives on."""
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    return any(each.state is not None and each.state.running is not None for each in statuses)


def _resources(container: _Container) -> tuple[str, ...]:
    limits = container.resources.limits if container.resources else None
    return tuple(sorted(limits or ()))
