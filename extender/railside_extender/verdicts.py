"""Verdicts by node for one demand, kept until things stand otherwise there.

Thousands of nodes are asked about again for each pod, and few have changed: what is said of a node is kept as the
bytes of the answer, and a whole answer is put together without looking at any node by itself. It must not decide.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import filterfalse, islice
from typing import Final

import msgspec

from railside_extender.demands import Demand
from railside_extender.fit import Standing
from railside_extender.score import BEST
from railside_extender.wire import Answer
from railside_proto.reasons import Reason

MOST_DEMANDS: Final = 64
"""Shapes of pods that are remembered; jobs have few."""


MOST_JUDGED: Final = 20_000
"""Verdicts by demand and standing that are remembered."""


class Verdict(msgspec.Struct, frozen=True):
    """What is said of one node for one demand."""

    score: int = 0
    """0 to 10, more is better."""
    text: str | None = None
    """Why it is no fit; None where it is."""
    never: bool = False
    passing: bool = False
    """Whether it is no fit only because of pods whose way is not known yet."""


Look = Callable[[str], Verdict]
Judge = Callable[[Demand, Standing | Reason], Verdict]


class Table:
    """The verdicts for one demand; ``look`` gives those that are missing."""

    def __init__(self, look: Look) -> None:
        """Nothing was asked yet."""
        self._look = look
        self._verdicts: dict[str, Verdict] = {}
        self._by_score: list[dict[str, None]] = [{} for _ in range(BEST + 1)]
        self._failed: dict[str, bytes] = {}
        self._never: dict[str, bytes] = {}
        self._passing: set[str] = set()

    def of(self, node: str) -> Verdict:
        """What is said of ``node``."""
        found = self._verdicts.get(node)
        return found if found is not None else self._put(node, self._look(node))

    def answer(self, nodes: Sequence[str], most: int) -> Answer:
        """The answer for ``nodes``, of which ``most`` of the best are offered; all that fit where it is 0."""
        for node in tuple(filterfalse(self._verdicts.__contains__, nodes)):
            self.of(node)
        return Answer(
            names=self._best(nodes, most or len(nodes)),
            failed=_chosen(self._failed, nodes),
            unresolvable=_chosen(self._never, nodes),
        )

    def may_pass(self, nodes: Iterable[str]) -> bool:
        """Whether any of ``nodes`` is no fit only because of pods whose way is not known yet."""
        return not self._passing.isdisjoint(nodes)

    def forget(self, nodes: Iterable[str]) -> None:
        """Look again at ``nodes`` when they are asked about."""
        for node in nodes:
            gone = self._verdicts.pop(node, None)
            if gone is not None:
                self._by_score[gone.score].pop(node, None)
                self._failed.pop(node, None)
                self._never.pop(node, None)
                self._passing.discard(node)

    def _best(self, nodes: Sequence[str], most: int) -> list[str]:
        chosen: list[str] = []
        for alike in reversed(self._by_score):
            if alike and len(chosen) < most:
                chosen += islice(filter(alike.__contains__, nodes), most - len(chosen))
        return chosen

    def _put(self, node: str, verdict: Verdict) -> Verdict:
        self._verdicts[node] = verdict
        if verdict.text is None:
            self._by_score[verdict.score][node] = None
        else:
            entry = msgspec.json.encode(node) + b":" + msgspec.json.encode(verdict.text)
            (self._never if verdict.never else self._failed)[node] = entry
        if verdict.passing:
            self._passing.add(node)
        return verdict


class Verdicts:
    """Tables of the demands that were asked about of late."""

    def __init__(self, standing: Callable[[str], Standing | Reason], judge: Judge) -> None:
        """``standing`` says how things stand on a node now, ``judge`` what follows for a demand."""
        self._standing = standing
        self._judge = judge
        self._tables: OrderedDict[Demand, Table] = OrderedDict()
        self._judged: dict[tuple[Demand, Standing | Reason], Verdict] = {}

    def forget(self, nodes: Iterable[str]) -> None:
        """Things stand otherwise on ``nodes``."""
        for table in self._tables.values():
            table.forget(nodes)

    def of(self, demand: Demand) -> Table:
        """The table of ``demand``."""
        table = self._tables.get(demand)
        if table is None:
            table = self._tables[demand] = Table(lambda node: self._look(demand, node))
        self._tables.move_to_end(demand)
        if len(self._tables) > MOST_DEMANDS:
            self._tables.popitem(last=False)
        return table

    def _look(self, demand: Demand, node: str) -> Verdict:
        """Nodes of equal standing are judged once."""
        key = demand, self._standing(node)
        found = self._judged.get(key)
        if found is None:
            if len(self._judged) >= MOST_JUDGED:
                self._judged.clear()
            found = self._judged[key] = self._judge(*key)
        return found


def _chosen(entries: dict[str, bytes], nodes: Sequence[str]) -> bytes:
    """The entries of ``nodes``, as they stand between the braces of a JSON object."""
    return b",".join(filter(None, map(entries.get, nodes))) if entries else b""
