"""The pure decisions: the list of 8, 128 and 1024 seats, and one container's start on a full node.

It must not touch files: what it decides on is made in memory.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from benchmarks.bed import HCAS, NODES, bed
from benchmarks.figures import Figure, floor, spread
from benchmarks.turns import timed_in_turns
from railside_agent.discovery import discover
from railside_agent.flight_log import outcome_of
from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.pool_rules import PoolRules, pool_rules
from railside_agent.seats import Books, Offer, OfferedSeat, offer
from railside_agent.settings import Settings
from railside_agent.situation import Situation
from railside_agent.start_decision import StartDecision, decide_start
from railside_agent.sysfs import read_whole_machine
from railside_proto.machine import Machine
from railside_proto.names import RESOURCE
from railside_proto.pool import Binding, Mode, Seat

_ROUNDS: Final = {"short": 60, "full": 300}
_SHARES: Final = (1, 16, 128)
_SEATS_FLOOR: Final = "as many seats made and sorted by name"
_START_FLOOR: Final = "its outcome written as JSON and read again"


async def measure(profile: str) -> list[Figure]:
    """The figures."""
    async with bed() as node:
        machine = await asyncio.to_thread(lambda: discover(read_whole_machine(node.root, NODES)))
    return [
        figure for shares in _SHARES for figure in await asyncio.to_thread(_of, machine, shares, _ROUNDS[profile])
    ]


def _of(machine: Machine, shares: int, rounds: int) -> list[Figure]:
    """The list when half of the seats are held, and a start when one more is dealt."""
    rules = next(pool_rules(Settings(shares_per_hca=shares, mode="ib-shared-multi")))
    now, books, dealt = _half_full(machine, rules, HCAS * shares)
    lists, seats = timed_in_turns(
        lambda: offer(now, books, rules.pool, rules.rules), lambda: _seats(HCAS * shares), rounds
    )
    starts, outcomes = timed_in_turns(
        lambda: _decided(dealt, now, books, rules), _json_of(_decided(dealt, now, books, rules)), rounds
    )
    return [
        _figure(f"list of {HCAS * shares} seats, half of them held", lists, _SEATS_FLOOR, seats),
        _figure(f"start of a container among {HCAS * shares // 2}", starts, _START_FLOOR, outcomes),
    ]


def _figure(what: str, samples: list[float], of_floor: str, floors: list[float]) -> Figure:
    return Figure(
        group="Decisions alone",
        what=what,
        unit="ms",
        spread=spread(samples),
        floor=floor(of_floor, floors, samples),
    )


def _half_full(machine: Machine, rules: PoolRules, seats: int) -> tuple[Situation, Books, str]:
    """A node half of whose seats are bound and one more is dealt; which one that is."""
    empty = Situation(machine=machine, mode=Mode.IB_SHARED_MULTI)
    books, listed = offer(empty, Books(), rules.pool, rules.rules)
    names = [one.seat.id for one in listed.seats]
    # One in two, so that both zones are half full.
    held = names[::2]
    entries = tuple(_entry(number, name) for number, name in enumerate(held))
    situation = Situation(machine=machine, mode=Mode.IB_SHARED_MULTI, checkpoint=Checkpoint(entries=entries))
    bindings: list[Binding] = []
    for name in held[: seats // 2 - 1]:
        bound, _ = outcome_of(
            _decided(name, msgspec.structs.replace(situation, bindings=tuple(bindings)), books, rules)
        )
        if bound is not None:
            bindings.append(bound)
    return msgspec.structs.replace(situation, bindings=tuple(bindings)), books, held[-1]


def _entry(number: int, seat: str) -> Entry:
    node = int(seat.partition("-")[0].removeprefix("n"))
    held = HeldId(id=seat, numa_nodes=(node,))
    return Entry(pod=f"pod-{number}", container="main", resource=RESOURCE, ids=(held,))


def _decided(seat: str, now: Situation, books: Books, rules: PoolRules) -> StartDecision:
    return decide_start((seat,), now, books, rules.pool, rules.rules, enforced={})


def _seats(count: int) -> Offer:
    made = (OfferedSeat(seat=Seat(id=f"n0-s{number}", numa_nodes=(0,)), healthy=True) for number in range(count))
    return Offer(seats=tuple(sorted(made, key=lambda one: one.seat.id)))


def _json_of(decision: StartDecision) -> Callable[[], object]:
    binding, _ = outcome_of(decision)
    return lambda: msgspec.json.decode(msgspec.json.encode(binding), type=Binding | None)
