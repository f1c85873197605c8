"""What a person reads about a pod: one verdict line, the evidence, and what to run next.

It must not decide anything.
"""

from collections import Counter
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from railside_cli.exit_status import FINDING, FINE
from railside_extender.explanation import Explanation, NodeExplained
from railside_proto.record import HolderRecord


def status(found: Explanation) -> int:
    """Fine for a pod that has its place, or would find one."""
    return FINE if found.node or any(node.fit for node in found.nodes) else FINDING


def page(found: Explanation) -> RenderableType:
    """The whole answer."""
    evidence = _holdings(found) if found.holds else _nodes(found)
    return Group(Text(verdict(found), style="bold"), *evidence, Text(f"next: {_next(found)}"))


def verdict(found: Explanation) -> str:
    """One line."""
    asks = " and ".join(f"{count} {name}" for name, count in found.asks.items()) or "nothing that is offered here"
    if found.problem is not None:
        return f"{found.pod} goes nowhere: {found.problem}"
    if found.node:
        state = "holds" if found.holds else "is bound, and its node does not show yet what it was dealt:"
        return f"{found.pod} on {found.node} {state} {asks}"
    fit = sum(node.fit for node in found.nodes)
    return f"{found.pod} asks for {asks}: {fit} of {len(found.nodes)} nodes would take it now"


def _nodes(found: Explanation) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False)
    for title in ("NODE", "SCORE", "POLICY", "FREE", "WHY NOT"):
        table.add_column(title, overflow="fold")
    for node in found.nodes:
        score = str(node.score) if node.fit else "-"
        table.add_row(node.node, score, node.policy or "?", _free(node), _why(node))
    yield table


def _free(node: NodeExplained) -> str:
    """``n0 4 gpu 3 infiniband-rdma``, a NUMA node on each line."""
    lines: dict[tuple[int, ...], list[str]] = {}
    for one in node.numbers:
        lines.setdefault(one.numa_nodes, []).append(f"{one.free} {one.resource.rpartition('/')[2]}")
    return "\n".join(f"{_zone(nodes)} {'  '.join(counts)}" for nodes, counts in sorted(lines.items()))


def _zone(nodes: tuple[int, ...]) -> str:
    return "+".join(f"n{node}" for node in nodes) or "any"


def _why(node: NodeExplained) -> str:
    coming = [f"on its way there: {pod}" for pod in node.on_their_way]
    return "\n".join([node.text or "", *coming]).strip()


def _holdings(found: Explanation) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False)
    for title in ("CONTAINER", "HOLDS", "HCA", "BESIDE GPU", "PATH"):
        table.add_column(title, overflow="fold")
    for holder in found.holds:
        table.add_row(holder.container, _held(holder), *_pairs(holder))
    yield table


def _held(holder: HolderRecord) -> str:
    amounts: Counter[str] = Counter()
    for count in holder.held:
        amounts[f"{_zone(count.numa_nodes)} {count.resource.rpartition('/')[2]}"] += count.held
    return "\n".join(f"{count} of {what}" for what, count in sorted(amounts.items()))


def _pairs(holder: HolderRecord) -> tuple[str, str, str]:
    by_hca = {pair.hca: pair for pair in holder.pairs}
    pairs = [by_hca.get(hca) for hca in holder.hcas]
    return (
        "\n".join(holder.hcas) or "chosen at its start",
        "\n".join(pair.gpu if pair else "-" for pair in pairs),
        "\n".join(pair.path if pair else "-" for pair in pairs),
    )


def _next(found: Explanation) -> str:
    namespace, _, name = found.pod.partition("/")
    if found.node:
        return f"kubectl get rdmanode {found.node} -o yaml"
    return f"kubectl describe pod -n {namespace} {name}"
