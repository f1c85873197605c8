"""Answers the scheduler's questions on what the cluster is known to be, and remembers what was offered.

It answers for which nodes are offered, and for how long they are held. It must not do I/O, nor read a clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from railside_extender.cluster import Cluster
from railside_extender.demands import Demand, demand
from railside_extender.fit import Fit, Misfit, Standing, verdict
from railside_extender.holds import Hold
from railside_extender.outlook import Shape
from railside_extender.pcie import pcie_misfit
from railside_extender.pod_facts import PodFacts
from railside_extender.preempt import victims
from railside_extender.score import score
from railside_extender.verdicts import Verdict, Verdicts
from railside_extender.waiting import Waiting
from railside_extender.wire import Answer, entries
from railside_proto.locality import PREFERRED, REQUIRED_NUMA, REQUIRED_PCIE
from railside_proto.names import GPU_RESOURCES
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import TopologyPolicy

_ONE_NODE: Final = frozenset({REQUIRED_NUMA, REQUIRED_PCIE})


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator wants it."""

    resource: str
    most_nodes: int = 8
    """How many of the fit nodes are offered; 0 for all."""
    default_locality: str = PREFERRED
    conflicting: frozenset[str] = frozenset()
    gpus: tuple[str, ...] = GPU_RESOURCES
    """Patterns of the resources that are GPUs."""

    @property
    def shape(self) -> Shape:
        """Which resources are HCAs and which GPUs."""
        return Shape(self.resource, self.gpus)


class Filtered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one filter call."""

    answer: Answer
    may_pass: bool = False
    """Whether nothing fits only because of pods whose way is not known yet."""
    code: str = ""
    """Why the first node is no fit, where none is."""


class Decider:
    """Decides by ``policy`` on what ``cluster`` knows."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        """Nothing was offered yet."""
        self._cluster = cluster
        self._policy = policy
        self._verdicts = Verdicts(cluster.standing, self._judge)
        self._waiting = Waiting()
        self._moved: set[str] = set()
        """Nodes that changed since somebody was last woken."""

    def filter(self, pod: PodFacts, names: Sequence[str], now: float) -> Filtered:
        """Which of ``names`` ``pod`` may go to: the best few, which are held for it until it is seen on one."""
        # What it was offered before stands in nobody's way, least of all in its own.
        self._cluster.release(pod.uid)
        wanted = self._demand(pod)
        if self._policy.resource not in pod.resources:
            return self._let_pass(pod, wanted, names, now)
        if isinstance(wanted, Reason):
            answer = Answer(names=[], unresolvable=entries(names, told(wanted)))
            return Filtered(answer=answer, code=wanted.code)
        self._catch_up(now)
        table = self._verdicts.of(wanted)
        answer = table.answer(names, self._policy.most_nodes)
        if answer.names:
            self._waiting.served(pod.uid)
            self._cluster.hold(pod.uid, Hold(wanted.ask, frozenset(answer.names), now))
            return Filtered(answer=answer)
        self._waiting.refused(pod.uid, wanted, now)
        code = (table.of(names[0]).text or "").partition(":")[0] if names else ""
        return Filtered(answer=answer, may_pass=table.may_pass(names), code=code)

    def prioritize(self, pod: PodFacts, names: Sequence[str], now: float) -> list[tuple[str, int]]:
        """How good each of ``names`` is for ``pod``, which was offered them: its own hold is in nobody's way."""
        return [(name, one.score) for name, one in self.explain(pod, names, now).items()]

    def obstacle(self, uid: str, node: str, now: float) -> str | None:
        """What stands in the way of binding the pod ``uid`` to ``node`` by now; None where nothing does.

        From here on the pod's way is known: it is held there, and nowhere else.
        """
        pod = self._cluster.pod(uid)
        wanted = self._demand(pod) if pod is not None else None
        if pod is None or self._policy.resource not in pod.resources or not isinstance(wanted, Demand):
            return None
        self._cluster.release(uid)
        self._catch_up(now)
        text = self._verdicts.of(wanted).of(node).text
        if text is None:
            self._cluster.hold(uid, Hold(wanted.ask, frozenset({node}), now))
        return text

    def preempt(self, pod: PodFacts, proposed: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """Whom to evict on which of the ``proposed`` nodes, with their victims, so that ``pod`` is admitted.

        Nodes where no eviction helps are left out; so are those where none is needed, as there the pod waits for
        something else.
        """
        wanted = self._demand(pod)
        if isinstance(wanted, Reason) or self._policy.resource not in pod.resources:
            return {node: tuple(uids) for node, uids in proposed.items()}
        found = {node: self._victims(wanted, pod, node, uids) for node, uids in proposed.items()}
        return {node: uids for node, uids in found.items() if uids}

    def _victims(
        self, wanted: Demand, pod: PodFacts, node: str, proposed: Sequence[str]
    ) -> tuple[str, ...] | None:
        def fits(gone: frozenset[str]) -> bool:
            return self._judge(wanted, self._cluster.standing_without(node, gone)).text is None

        return victims(proposed, self._cluster.pods_on(node).values(), pod.priority, fits)

    def explain(self, pod: PodFacts, names: Iterable[str], now: float) -> dict[str, Verdict]:
        """The verdict on each of ``names``, with nothing offered."""
        wanted = self._demand(pod)
        if isinstance(wanted, Reason):
            return dict.fromkeys(names, Verdict(text=told(wanted), never=True))
        self._catch_up(now)
        table, own = self._verdicts.of(wanted), self._cluster.held_by(pod.uid)
        return {name: self._alone(wanted, name, pod.uid) if name in own else table.of(name) for name in names}

    def wake(self, now: float) -> str | None:
        """A node that changed and is fit by now for a pod that was refused of late; None where there is none.

        The scheduler tries a refused pod again at some change of an object that it watches, and records are none.
        """
        self._catch_up(now)
        moved, self._moved = self._moved, set()
        for wanted in self._waiting.demands(now):
            table = self._verdicts.of(wanted)
            fit = next((node for node in sorted(moved) if table.of(node).text is None), None)
            if fit is not None:
                return fit
        return None

    def _alone(self, wanted: Demand, node: str, uid: str) -> Verdict:
        """The verdict on a node that the pod itself was offered."""
        return self._judge(wanted, self._cluster.standing_beside(node, uid))

    def _catch_up(self, now: float) -> None:
        self._cluster.grow_stale(now)
        changed = self._cluster.take_changed()
        self._moved |= changed
        self._verdicts.forget(changed)

    def _demand(self, pod: PodFacts) -> Demand | Reason:
        return demand(pod, conflicting=self._policy.conflicting, default=self._policy.default_locality)

    def _let_pass(self, pod: PodFacts, wanted: Demand | Reason, names: Sequence[str], now: float) -> Filtered:
        """A pod that asks for none of ours passes everywhere; where it can go to one node only, it is held."""
        if isinstance(wanted, Demand) and len(names) == 1:
            self._cluster.hold(pod.uid, Hold(wanted.ask, frozenset(names), now))
        return Filtered(answer=Answer(names=names))

    def _judge(self, wanted: Demand, standing: Standing | Reason) -> Verdict:
        """The verdict on a node where things stand so."""
        if isinstance(standing, Reason):
            return Verdict(text=told(standing), never=True)
        one_node = wanted.locality in _ONE_NODE
        if one_node and standing.terms.rule.policy is TopologyPolicy.NONE:
            return Verdict(text=told(reason(Code.POLICY_NEVER_ALIGNS, wanted=wanted.locality)), never=True)
        found = verdict(wanted.ask, standing, one_node=one_node)
        if isinstance(found, Fit) and wanted.locality == REQUIRED_PCIE:
            found = pcie_misfit(wanted, standing, self._policy.shape) or found
        if isinstance(found, Misfit):
            return Verdict(text=told(found.reason), never=found.never, passing=found.passing)
        return Verdict(score=score(wanted, standing.terms, self._policy.shape))


def told(why: Reason) -> str:
    """A reason as the scheduler shows it, grouped by equal texts."""
    return f"{why.code}: {why.sentence}"
