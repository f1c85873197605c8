"""The cluster as it is known: nodes, records, pods, agents, and what was offered; how things stand on each node.

State is what was seen last, keyed by UID, and never counted up or down: what stands on it is derived anew when it
changes. It must not do I/O, nor decide about a pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from railside_extender.admission import Release
from railside_extender.fit import Standing
from railside_extender.holds import Hold, Holds
from railside_extender.on_the_way import coming, is_coming
from railside_extender.pod_facts import PodFacts
from railside_extender.records import Terms, releases, terms, told, without
from railside_proto.names import RESOURCE
from railside_proto.podspec import PodAsk
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import Record

T = TypeVar("T")

MOST_ALIKE: Final = 6_000
"""Standings that are kept as one; more than nodes of a large cluster have at a time."""

LATE_SECONDS: Final = 2.0
"""How old a word of the scheduler's may be that the watch tells."""

UNREADY_SECONDS: Final = 30.0
"""How long an agent may be unready, as in a rollout, before what it told counts as old."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What the extender needs of a Node."""

    uid: str
    boot_id: str = ""


class Cluster:
    """What was seen last. Times are seconds of one clock that never goes back."""

    def __init__(self, resource: str = RESOURCE) -> None:
        """Nothing was seen yet; ``resource`` is what a node must offer."""
        self._resource = resource
        self.turned_away = 0
        """How many pods were seen that a kubelet did not admit."""
        self._nodes: dict[str, NodeFacts] = {}
        self._records: dict[str, Record | Reason] = {}
        self._terms: dict[str, Terms | Reason] = {}
        self._same_terms: dict[Terms | Reason, Terms | Reason] = {}
        self._releases: dict[str, tuple[Release, ...]] = {}
        self._unready: dict[str, float] = {}
        """Nodes whose agent is not ready, or gone, and since when."""
        self._stale: set[str] = set()
        self._pods: dict[str, PodFacts] = {}
        self._pods_on: dict[str, dict[str, PodFacts]] = defaultdict(dict)
        self._holds = Holds(moved=self._touch_holds)
        self._standings: dict[str, Standing | Reason] = {}
        self._quiet: dict[str, Standing | Reason] = {}
        self._turned_away: dict[str, dict[str, PodAsk]] = {}
        """By node and pod, since its record is as it is."""
        self._alike: dict[Standing | Reason, Standing | Reason] = {}
        """One object for all equal ones: whoever keeps something for a standing finds it by identity."""
        self._changed: set[str] = set()

    @property
    def holds(self) -> Mapping[str, Hold]:
        """By the pod's UID."""
        return self._holds.by_pod

    @property
    def records(self) -> Mapping[str, Record | Reason]:
        """By node: what each agent told, or why it cannot be read."""
        return self._records

    def pods_on(self, node: str) -> Mapping[str, PodFacts]:
        """Pods that are bound to ``node``, by UID."""
        return self._pods_on.get(node, {})

    def on_their_way(self, node: str) -> tuple[str, ...]:
        """Pods that are bound to ``node``, and that its record does not show whole: namespace and name, sorted."""
        record = self._records.get(node)
        if not isinstance(record, Record):
            return ()
        here = self.pods_on(node).values()
        return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in here if is_coming(pod, record)))

    def held_for(self, node: str) -> tuple[str, ...]:
        """UIDs of pods that were offered ``node``, and are seen nowhere yet."""
        return tuple(sorted(self._holds.on(node)))

    def in_flight(self) -> int:
        """How many pods are on their way to nodes."""
        return sum(len(self.on_their_way(node)) for node in self._pods_on)

    def find(self, namespace: str, name: str) -> PodFacts | None:
        """The pod of that name."""
        same = (pod for pod in self._pods.values() if (pod.namespace, pod.name) == (namespace, name))
        return next(same, None)

    def pod(self, uid: str) -> PodFacts | None:
        """The pod as it was seen last."""
        return self._pods.get(uid)

    def take_changed(self) -> frozenset[str]:
        """Nodes whose standing may be another than when this was asked last."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def see_node(self, name: str, facts: NodeFacts | None) -> None:
        """A Node as it is now; None when it is gone, with all that was known of it."""
        _put(self._nodes, name, facts)
        self._touch(name)

    def see_record(self, name: str, record: Record | Reason | None, now: float) -> None:
        """A node's record as it is now."""
        if _sequence(record) != _sequence(self._records.get(name)):
            self._turned_away.pop(name, None)
        found = terms(record, self._resource) if isinstance(record, Record) else None
        _put(self._terms, name, found if found is None else _one_of_equal(self._same_terms, found))
        _put(self._records, name, told(record) if isinstance(record, Record) else record)
        _put(self._releases, name, releases(record, found) if isinstance(record, Record) else None)
        self._touch(name)
        self._look_for_agent(name, now)

    def see_pod(self, uid: str, pod: PodFacts | None, now: float) -> None:
        """A pod as it is now; None when it is gone."""
        before = self._pods.get(uid)
        if pod is not None and pod.turned_away and before is not None and not before.turned_away:
            self._note_turned_away(pod)
        _put(self._pods, uid, pod)
        for node in {one.node for one in (before, pod) if one is not None and one.node}:
            _put(self._pods_on[node], uid, pod if pod is not None and pod.node == node else None)
            if not self._pods_on[node]:
                del self._pods_on[node]
            self._touch(node)
            self._look_for_agent(node, now)
        if pod is None or pod.node or pod.over or (before is not None and self._is_given_up(pod, before, now)):
            self.release(uid)

    def _is_given_up(self, pod: PodFacts, before: PodFacts, now: float) -> bool:
        """Whether the scheduler has just said that it found no place; it does not say the same twice.

        What is heard right after an offer was said of the try before it.
        """
        hold = self.holds.get(pod.uid)
        is_late = hold is not None and now - hold.since < LATE_SECONDS
        return bool(pod.unplaced) and pod.unplaced != before.unplaced and not is_late

    def hold(self, uid: str, hold: Hold) -> None:
        """Remember that a pod was offered nodes; what it was offered before counts no longer."""
        pod = self._pods.get(uid)
        if pod is not None and (pod.node or pod.over):
            self._holds.drop(uid)
        else:
            self._holds.put(uid, hold)

    def release(self, uid: str) -> None:
        """The pod is bound, deleted, or was not placed after all."""
        self._holds.drop(uid)

    def expire(self, now: float, hold_seconds: float) -> None:
        """Drop holds that nobody has ended for ``hold_seconds``, or whose pod was never seen."""
        self._holds.expire(now, hold_seconds, self._pods)

    def grow_stale(self, now: float) -> None:
        """Look anew at nodes whose agent has been away for so long, by ``now``, that its record means nothing."""
        for node, since in self._unready.items():
            if now - since >= UNREADY_SECONDS and node not in self._stale:
                self._stale.add(node)
                self._touch(node)

    def _look_for_agent(self, node: str, now: float) -> None:
        """An agent that runs as a service of its machine has no pod that could tell whether it is ready."""
        record = self._records.get(node)
        agent = self.pods_on(node).get(record.agent_uid) if isinstance(record, Record) else None
        if not isinstance(record, Record) or not record.agent_uid or (agent is not None and agent.ready):
            self._unready.pop(node, None)
            self._stale.discard(node)
        else:
            self._unready.setdefault(node, now)

    def standing(self, node: str) -> Standing | Reason:
        """How things stand on ``node``, or why nothing can be said of it."""
        found = self._standings.get(node)
        if found is None:
            found = self._derived(node)
            if node not in self._nodes or node not in self._records:
                return found
            found = self._standings[node] = _one_of_equal(self._alike, found)
        return found

    def held_by(self, uid: str) -> frozenset[str]:
        """Nodes that the pod was offered."""
        hold = self.holds.get(uid)
        return hold.nodes if hold else frozenset()

    def standing_beside(self, node: str, uid: str) -> Standing | Reason:
        """How things stand on ``node`` for all but the pod ``uid``."""
        return self._derived(node, uid)

    def standing_without(self, node: str, uids: frozenset[str]) -> Standing | Reason:
        """How things will stand on ``node`` when the pods ``uids`` have gone from there."""
        return self._without_holds(node, uids)

    def _note_turned_away(self, pod: PodFacts) -> None:
        """The kubelet did not admit a pod: its like is not sent there until the node has changed."""
        self.turned_away += 1
        if isinstance(pod.ask, PodAsk) and isinstance(self._records.get(pod.node), Record):
            self._turned_away.setdefault(pod.node, {})[pod.uid] = pod.ask

    def _touch(self, node: str) -> None:
        self._quiet.pop(node, None)
        self._touch_holds(node)

    def _touch_holds(self, node: str) -> None:
        self._standings.pop(node, None)
        self._changed.add(node)

    def _derived(self, node: str, beside: str = "") -> Standing | Reason:
        quiet = self._quiet.get(node)
        if quiet is None:
            quiet = self._without_holds(node)
            if node in self._nodes:
                self._quiet[node] = quiet
        holds = self._holds.on(node)
        if not holds or isinstance(quiet, Reason):
            return quiet
        held_for = _sorted(hold.ask for uid, hold in holds.items() if uid != beside)
        return Standing(quiet.terms, quiet.others, held_for, quiet.releases, quiet.turned_away)

    def _without_holds(self, node: str, gone: frozenset[str] = frozenset()) -> Standing | Reason:
        """How things stand but for what was offered to pods; these come and go with each question."""
        record = self._sound_record(node)
        if isinstance(record, Reason):
            return record
        if gone:
            record = without(record, gone)
        found = terms(record, self._resource) if gone else self._terms[node]
        if isinstance(found, Reason):
            return found
        staying = (pod for uid, pod in self.pods_on(node).items() if uid not in gone)
        every = _sorted(coming(staying, record, found.room.aligned))
        shunned = frozenset(self._turned_away.get(node, {}).values())
        given = releases(record, found) if gone else self._releases[node]
        return Standing(found, every, (), given, shunned)

    def _sound_record(self, node: str) -> Record | Reason:
        record, facts = self._records.get(node), self._nodes.get(node)
        if record is None or facts is None:
            return reason(Code.NO_RECORD)
        if isinstance(record, Reason):
            return record
        if record.node_uid != facts.uid or (facts.boot_id and record.boot_id != facts.boot_id):
            return reason(Code.RECORD_OF_ANOTHER_NODE)
        if node in self._stale:
            return reason(Code.AGENT_NOT_READY)
        if not any(pool.resource == self._resource and pool.registered for pool in record.pools):
            return reason(Code.NOT_REGISTERED, resource=self._resource)
        return record


def _one_of_equal(kept: dict[T, T], found: T) -> T:
    """The first of all that are equal to ``found``."""
    if len(kept) > MOST_ALIKE:
        kept.clear()
    return kept.setdefault(found, found)


def _sequence(record: Record | Reason | None) -> int | None:
    return record.sequence if isinstance(record, Record) else None


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _sorted(asks: Iterable[PodAsk]) -> tuple[PodAsk, ...]:
    """In one order, so that equal standings are equal; which one it is does not matter."""
    return tuple(sorted(asks, key=hash))
