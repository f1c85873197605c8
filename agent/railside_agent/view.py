"""The agent's present view, put together from its parts: what answers and records are made of.

It must not change any of them.
"""

from typing import Final

import msgspec

from railside_agent.mode import ModeDecision
from railside_agent.own_node import NodeFacts
from railside_agent.pod_resources import NodeHoldings
from railside_agent.pods import Pods
from railside_agent.publication import Publication
from railside_agent.seats import Offer
from railside_proto.machine import Machine
from railside_proto.pool import Binding, Pool
from railside_proto.reasons import Reason
from railside_proto.record import KubeletFacts


class RegistrationState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the kubelet took a plugin, a sentence about it, and whether the kubelet listens to its list."""

    registered: bool
    detail: str
    streams: int = 0


NOT_TRIED: Final = RegistrationState(registered=False, detail="not registered: there is nothing to offer yet")


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's parts at one moment."""

    pool: Pool
    mode: ModeDecision
    offer: Offer
    registration: RegistrationState
    bindings: tuple[Binding, ...] = ()
    wanted: bool = False
    """Whether the kubelet should know this pool."""
    lacks: tuple[Reason, ...] = ()
    """What the kubelet does not ask of this pool."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's parts at one moment."""

    version: str
    pools: tuple[PoolView, ...]
    machine: Machine | None
    look_problem: str | None = None
    """Why the last look at the machine failed."""
    checkpoint_problem: str | None = None
    """Why the kubelet's checkpoint cannot be used."""
    node: NodeFacts = NodeFacts()
    pods: Pods = Pods()
    sources: dict[str, str] = {}
    """Who tells of changes, and whether they can."""
    holdings: NodeHoldings | None = None
    """What the kubelet itself said last of who holds what."""
    lacks: tuple[Reason, ...] = ()
    """What the kubelet cannot tell."""
    kubelet: KubeletFacts = KubeletFacts()
    """How it admits pods."""
    publication: Publication = Publication()
    """What became of the node's record."""
