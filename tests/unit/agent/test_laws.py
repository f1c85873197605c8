"""The laws of the kubelet's list, in every state that a careless world can bring about."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.agent.node_model import (
    RECOVERY,
    TOMBSTONE,
    Card,
    Node,
    Pod,
    nearest_possible,
    uverbs_answer,
)

from railside_agent.binding import Bound, Refused
from railside_agent.preference import preferred
from railside_agent.seat_names import ANYWHERE, is_ours, zone_of, zone_of_node
from railside_agent.seats import wants_registration
from railside_agent.start_decision import StartDecision
from railside_proto.names import RESOURCE
from railside_proto.pool import Binding, Mode, Pool
from railside_proto.reasons import Code

_COUNTS = st.integers(1, 3)
_PICK = st.integers(0, 1000)


class World(RuleBasedStateMachine):
    """Everything that happens to a node, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node([0, 0, 1, 1], share=2)
        self.uids = 0

    @initialize(
        nodes=st.sampled_from([[0, 0, 1, 1], [0, 1], [None, None], [0, None, 1], [0, 0, 0, 1]]),
        share=st.integers(1, 3),
        mode=st.sampled_from([*Mode, None]),
        strangers=st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=2),
    )
    def boot(
        self, nodes: list[int | None], share: int, mode: Mode | None, strangers: list[tuple[bool, int]]
    ) -> None:
        self.node = Node(nodes, share)
        self.node.mode = mode
        for known, number in strangers:
            self._stranger(known=known, card=self.node.cards[number % len(nodes)])
        self.settle()

    def _stranger(self, *, known: bool, card: Card) -> None:
        """A pod that another plugin has served, before we came."""
        pod = self._pod()
        name = f"mlx5_{card.number}"
        if name in self.node.held():
            return
        nodes = () if all(one.numa_node is None for one in self.node.cards) else (card.numa_node or 0,)
        self.node.deal_stranger(pod, name, nodes, uverbs_answer([f"uverbs{card.node_number}"]) if known else b"")

    def _pod(self) -> Pod:
        self.uids += 1
        pod = Pod(f"pod-{self.uids}")
        self.node.pods[pod.uid] = pod
        return pod

    # Pods

    @rule(count=_COUNTS, gpus=st.integers(0, 3), second=st.booleans(), pick=st.randoms())
    def admit(self, count: int, gpus: int, second: bool, pick: object) -> None:  # noqa: FBT001 -- drawn
        node = self.node
        node.in_flight = frozenset()
        node.purge()
        # The kubelet writes its whole file anew at each allocation.
        node.readable = True
        free = node.free_ids()
        if len(free) < count:
            return self.settle()
        chosen = preferred(free, (), count) if gpus % 2 else tuple(pick.sample(free, count))  # type: ignore[attr-defined]
        pod = self._pod()
        given = pick.sample(node.free_gpus(), min(gpus, len(node.free_gpus())))  # type: ignore[attr-defined]
        node.deal(pod, chosen, given)
        if second:
            # An init container's seats and GPUs are used again by the main one, which may want fewer.
            node.deal(pod, chosen[: 1 + count // 2], given[:1])
        return self.settle()

    @rule(which=_PICK)
    def call_under_way(self, which: int) -> None:
        free = self.node.free_ids()
        if free:
            self.node.call(free[which % len(free)])
        self.settle()

    @rule()
    def call_ends(self) -> None:
        self.node.in_flight = frozenset()
        self.settle()

    @precondition(lambda self: any(not pod.over for pod in self.node.pods.values()))
    @rule(which=_PICK, container=_PICK)
    def start(self, which: int, container: int) -> None:
        pod = self._some_pod(which)
        if not pod.containers or not self.node.knows(pod):
            return
        self._start(pod, pod.containers[container % len(pod.containers)])

    def _start(self, pod: Pod, seats: tuple[str, ...]) -> None:
        ended = self.node.handed_on(pod, seats)
        before = {card.number: self.node.users(card, ended) for card in self.node.cards}
        kept = self._kept(pod, seats, ended)
        decision = self.node.start(pod, seats)
        self._judge(seats, before, kept, decision)
        self.settle()

    @precondition(lambda self: any(not pod.over for pod in self.node.pods.values()))
    @rule(which=_PICK)
    def end(self, which: int) -> None:
        self._some_pod(which).over = True
        self.settle()

    @precondition(lambda self: any(not pod.over for pod in self.node.pods.values()))
    @rule(which=_PICK)
    def replace(self, which: int) -> None:
        """A pod ends, and the next one is dealt the very same seats and starts."""
        node, pod = self.node, self._some_pod(which)
        pod.over, node.in_flight, node.readable = True, frozenset(), True
        node.purge()
        self.settle()
        seats = pod.containers[0] if pod.containers else ()
        if seats and set(seats) <= set(node.free_ids()):
            fresh = self._pod()
            node.deal(fresh, seats, ())
            self.settle()
            self._start(fresh, fresh.containers[0])

    @precondition(lambda self: any(not pod.over for pod in self.node.pods.values()))
    @rule(which=_PICK)
    def deal_twice(self, which: int) -> None:
        """A kubelet that has forgotten gives a living pod's seats to another pod, too (law 5)."""
        pod = self._some_pod(which)
        seats = pod.containers[0] if pod.uid not in self.node.strangers and pod.containers else ()
        # It gives nothing that is not listed, as after an agent that has forgotten, too.
        if seats and set(seats) <= self.node.listed().keys():
            self.node.readable = True
            self.node.deal(self._pod(), seats, ())
        self.settle()

    @rule()
    def api_tells_ends(self) -> None:
        self.node.told_ended |= {pod.uid for pod in self.node.pods.values() if pod.over}
        self.settle()

    def _some_pod(self, which: int) -> Pod:
        living = [pod for pod in self.node.pods.values() if not pod.over]
        return living[which % len(living)]

    # Hardware

    @rule(which=_PICK)
    def port_down(self, which: int) -> None:
        self._card(which).active = False
        self.settle()

    @rule(which=_PICK)
    def port_up(self, which: int) -> None:
        card = self._card(which)
        if not card.active:
            card.active = True
            card.ill_until = self.node.now + RECOVERY if card.known else card.ill_until
        self.settle()

    @rule(which=_PICK)
    def unplug(self, which: int) -> None:
        self._card(which).present = False
        self.settle()

    @rule(which=_PICK, number=st.integers(10, 99))
    def plug(self, which: int, number: int) -> None:
        card = self._card(which)
        if not card.present:
            card.present = True
            # An agent that never saw it before has no reason to wait.
            card.ill_until = self.node.now + RECOVERY if card.known else card.ill_until
            card.node_number = number * 10 + card.number
        self.settle()

    def _card(self, which: int) -> Card:
        return self.node.cards[which % len(self.node.cards)]

    # Kubelet, agent, time

    @rule(mode=st.sampled_from([*Mode, None]))
    def label(self, mode: Mode | None) -> None:
        self.node.mode = mode
        self.settle()

    @rule(share=st.integers(1, 4))
    def settings_change(self, share: int) -> None:
        self.node.pool = Pool(shares_per_hca=share)
        self.node.restart_agent(forgets=False)
        self.settle()

    @rule(seconds=st.sampled_from([1.0, 11.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.node.now += seconds
        self.settle()

    @rule()
    def kubelet_writes(self) -> None:
        self.node.acknowledge()
        self.settle()

    @rule(readable=st.booleans())
    def checkpoint_garbled(self, readable: bool) -> None:  # noqa: FBT001 -- drawn
        self.node.readable = readable
        self.settle()

    @rule(forgets=st.booleans())
    def agent_restarts(self, forgets: bool) -> None:  # noqa: FBT001 -- drawn
        # Who has neither the kubelet's file nor a memory cannot know what is held.
        self.node.readable |= forgets
        self.node.restart_agent(forgets=forgets)
        self.node.list_again(looked=False)
        self._held_ids_are_listed()
        self.settle(fresh=forgets)

    @precondition(lambda self: any(pod.started for pod in self.node.pods.values()))
    @rule()
    def checkpoint_lost(self) -> None:
        """The kubelet's disk loses its file; the API server still has the pods (law 7)."""
        self.node.readable, self.node.in_flight = True, frozenset()
        self.node.lose_checkpoint()
        self.settle()

    @rule(numbers=st.permutations(range(4)), kept=st.booleans())
    def reboot(self, numbers: list[int], kept: bool) -> None:  # noqa: FBT001 -- drawn
        """The kernel numbers the HCAs anew; what was bound is remembered, or its file is lost."""
        for card, number in zip(self.node.cards, numbers, strict=False):
            card.node_number = 100 * (self.uids + 1) + number
        if not kept:
            self.node.disk.clear()
        for pod in self.node.pods.values():
            # Whom the kubelet does not know it deals anew, as if it came for the first time.
            pod.over |= bool(pod.started) and not self.node.knows(pod)
        self.node.restart_agent(forgets=False)
        self.settle()

    # What must hold

    def settle(self, *, fresh: bool = False) -> None:
        """List until nothing changes, as the agent does whenever anything changes."""
        before = {} if fresh else self.node.listed()
        self.node.list_again()
        self._nothing_left_too_soon(before)
        again = self.node.offer.seats
        self.node.list_again()
        assert again == self.node.offer.seats

    def _nothing_left_too_soon(self, before: dict[str, tuple[bool, tuple[int, ...]]]) -> None:
        """Law 1."""
        node = self.node
        now = node.listed()
        for name in before.keys() - now.keys():
            assert not before[name][0]
            assert node.readable
            assert not node.in_flight
            assert name not in node.held()
            assert name not in node.registered
            assert node.now - node.since_unhealthy[name] >= TOMBSTONE
        for name, (healthy, _) in now.items():
            if healthy:
                node.since_unhealthy.pop(name, None)
            else:
                node.since_unhealthy.setdefault(name, node.now)

    @invariant()
    def laws_hold(self) -> None:
        self._held_ids_are_listed()
        self._hints_are_all_or_none()
        self._free_seats_are_the_free_shares()

    def _held_ids_are_listed(self) -> None:
        """Laws 1, 3, 4 and 8: with the node that the kubelet recorded, and healthy unless the pod is over."""
        listed = self.node.listed()
        assert all(listed[name][0] for name in self.node.in_flight)
        for entry in self.node.entries:
            for one in entry.ids if entry.resource == RESOURCE else ():
                assert one.id in listed
                healthy, nodes = listed[one.id]
                assert one.numa_nodes == nodes
                assert healthy or entry.pod in self.node.told_ended

    def _hints_are_all_or_none(self) -> None:
        """Law 4."""
        assert len({bool(nodes) for _, nodes in self.node.listed().values()}) <= 1

    def _free_seats_are_the_free_shares(self) -> None:
        """Law 7, in both directions: what is offered is what is free, counted here once more."""
        node = self.node
        if not node.readable:
            return
        hinted = any(nodes for _, nodes in node.listed().values())
        ours = [
            entry
            for entry in node.entries
            if entry.resource == RESOURCE and node.alive(entry.pod) and entry.pod not in node.strangers
        ]
        dealt = {name: _zone(name, ()) for name in node.in_flight if is_ours(name)}
        held = dealt | {one.id: _zone(one.id, one.numa_nodes) for entry in ours for one in entry.ids}
        strange = {name for entry in node.entries if entry.pod in node.strangers for name in entry.names}
        bound = {seat for one in node.live() for seat in one.seats}
        idle = {name for name, (healthy, _) in node.listed().items() if healthy} - held.keys() - strange
        # What a container runs on is not dealt again, even where the kubelet has forgotten it.
        assert not idle & bound
        taken = self._strangers_cards()
        room = self._room(taken, hinted=hinted)
        roomiest = self._roomiest(room, hinted=hinted)
        held = {name: roomiest if zone == ANYWHERE else zone for name, zone in held.items()}
        for zone, free in room.items():
            waiting = {name for name in held.keys() - bound if not hinted or held[name] == zone}
            offered = {
                name
                for name, (healthy, nodes) in node.listed().items()
                if healthy
                and name not in held
                and name not in strange
                and (not hinted or _zone(name, nodes) == zone)
            }
            if not self._unknown_strangers():
                assert len(offered) == max(0, free - len(waiting))
            elif node.mode is Mode.IB_SHARED and not (hinted and any(one.numa_node is None for one in node.cards)):
                # Idle HCAs go first to those whose HCA nobody knows; without a NUMA node they may be of any zone.
                unknown = self._unknown(zone if hinted else None)
                assert len(offered) == max(0, max(0, free - unknown) - len(waiting))
            else:
                assert len(offered) <= max(0, free - len(waiting))

    def _room(self, taken: set[int], *, hinted: bool) -> Counter[str]:
        """Free shares by zone."""
        node = self.node
        room: Counter[str] = Counter()
        for card in node.cards:
            usable = node.sound(card) and card.number not in taken
            free = max(0, node.pool.share(node.mode) - len(node.users(card))) if usable else 0
            room[zone_of_node(card.numa_node) if hinted else ANYWHERE] += free
        return room

    def _roomiest(self, room: Counter[str], *, hinted: bool) -> str:
        """Where seats that fit everywhere wait: where most is free once no HCA is without a NUMA node."""
        here = {zone_of_node(card.numa_node) for card in self.node.cards if card.present}
        if not hinted or ANYWHERE in here or not here:
            return ANYWHERE
        return max(here, key=lambda zone: (room[zone], zone))

    def _strangers_cards(self) -> set[int]:
        """Law 2."""
        answers = [entry.answer for entry in self.node.entries if entry.pod in self.node.strangers]
        return {card.number for card in self.node.cards if uverbs_answer([f"uverbs{card.node_number}"]) in answers}

    def _unknown_strangers(self) -> bool:
        known = self._strangers_cards()
        strangers = [entry for entry in self.node.entries if entry.pod in self.node.strangers]
        return len(known) < len(strangers)

    def _unknown(self, zone: str | None) -> int:
        """Strangers' ids of ``zone``, or of all zones, whose answer names no node."""
        entries = [one for one in self.node.entries if one.pod in self.node.strangers and not one.answer]
        return sum(zone in {None, _zone(one.id, one.numa_nodes)} for entry in entries for one in entry.ids)

    @invariant()
    def never_displaces_another_plugin(self) -> None:
        """Without a mode and with nothing of ours held, the kubelet is left alone."""
        ours = any(one.held and not one.foreign for one in self.node.offer.seats)
        if self.node.mode is None and not ours:
            assert not wants_registration(self.node.offer, self.node.mode)

    def _kept(self, pod: Pod, seats: tuple[str, ...], ended: list[Binding]) -> dict[str, str]:
        bound = {
            seat: address
            for one in self.node.live()
            if one.pod in {None, pod.uid} and one not in ended
            for seat, address in zip(one.seats, one.hcas, strict=True)
        }
        here = {card.address for card in self.node.cards if card.present and card.active}
        return {seat: bound[seat] for seat in seats if bound.get(seat) in here}

    def _judge(
        self,
        seats: tuple[str, ...],
        before: dict[int, set[str]],
        kept: dict[str, str],
        decision: StartDecision,
    ) -> None:
        """Laws 7 and 8 at a start, that no free choice is nearer, and that nobody waits for nothing."""
        if isinstance(decision.outcome, Refused):
            if self.node.readable and not self._unknown_strangers():
                self._judge_refusal(seats, before, kept, decision.outcome.reason.code)
            return
        assert not self.node.readable or len(self._holders(seats)) == 1
        made = decision.outcome.binding
        given = dict(zip(made.seats, made.hcas, strict=True))
        assert kept == {seat: given[seat] for seat in kept}
        fresh = Counter(hca for seat, hca in given.items() if seat not in kept)
        for card in self.node.cards:
            if fresh[card.address]:
                assert self.node.sound(card)
                assert card.number not in self._strangers_cards()
                others = before[card.number] - (set(seats) - kept.keys())
                assert len(others) + fresh[card.address] <= self.node.pool.share(self.node.mode)
        if self.node.readable and not self._unknown_strangers():
            self._judge_nearness(seats, before, kept, decision.outcome, decision)

    def _holders(self, seats: tuple[str, ...]) -> set[str]:
        """Pods not known to be over that have one of ``seats``: with more than one, nobody starts."""
        ours = [entry for entry in self.node.entries if entry.resource == RESOURCE and self.node.alive(entry.pod)]
        bound = {one.pod for one in self.node.live() if one.pod and not set(one.seats).isdisjoint(seats)}
        return bound | {entry.pod for entry in ours if not set(entry.names).isdisjoint(seats)}

    def _judge_refusal(
        self, seats: tuple[str, ...], before: dict[int, set[str]], kept: dict[str, str], code: Code
    ) -> None:
        used = self.node.offer.usage
        assert used is not None
        room: Counter[str] = Counter()
        for card in self.node.cards:
            if self.node.sound(card) and card.number not in self._strangers_cards():
                zone = zone_of_node(card.numa_node) if used.hinted else ANYWHERE
                room[zone] += max(0, self.node.pool.share(self.node.mode) - len(before[card.number]))
        needed = Counter(used.zone(seat) for seat in seats if seat not in kept)
        if len(self._holders(seats)) > 1:
            assert code is Code.DEALT_TWICE
            return
        assert code is Code.NO_FREE_HCA
        assert any(room[zone] < count for zone, count in needed.items())

    def _judge_nearness(
        self,
        seats: tuple[str, ...],
        before: dict[int, set[str]],
        kept: dict[str, str],
        outcome: Bound,
        decision: StartDecision,
    ) -> None:
        used = self.node.offer.usage
        assert used is not None
        free: dict[str, list[object]] = {}
        for card in self.node.cards:
            room = self.node.pool.share(self.node.mode) - len(before[card.number] - (set(seats) - kept.keys()))
            if room > 0 and self.node.sound(card) and card.number not in self._strangers_cards():
                zone = zone_of_node(card.numa_node) if used.hinted else ANYWHERE
                if card.address not in kept.values():
                    free.setdefault(zone, []).append(card.seen())
        needed = Counter(used.zone(seat) for seat in seats if seat not in kept)
        if len(set(outcome.binding.hcas)) < len(seats) or any(
            len(free.get(zone, ())) < n for zone, n in needed.items()
        ):
            return
        kept_hcas = [card.seen() for card in self.node.cards if card.address in kept.values()]
        best = nearest_possible(list(decision.start.gpus), free, kept_hcas, needed)  # type: ignore[arg-type]
        assert best == tuple(sorted(pair.path for pair in outcome.pairs))


def _zone(name: str, nodes: tuple[int, ...]) -> str:
    return zone_of(name) if is_ours(name) or len(nodes) != 1 else zone_of_node(nodes[0])


World.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
# To shrink what fails takes minutes, and a time limit in the middle of it would hide what failed.
TestLaws = pytest.mark.timeout(900)(World.TestCase)
