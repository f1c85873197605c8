"""Every tree of ours, with anything of it gone, garbled or in the way, also in the middle of a look."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import MACHINES
from tests.unit.builders import seen
from tests.unit.mutations import CHANGES, Mutations

from railside_agent.device_nodes import DeviceNodes
from railside_agent.discovery import discover
from railside_agent.sysfs import read_whole_machine
from railside_proto.machine import DeviceNode, Hca, LinkLayer, Machine
from railside_proto.pool import Functions, Selector
from railside_sim.manifest import read_manifest
from railside_sim.stand_in_nodes import StandInNodes
from railside_sim.tree import write_tree

_MACHINES = ("vf-and-pf", "vm-virtual-topology", "infiniband-beside-roce", "dual-port")
_EXAMPLES = 500
_EVERYTHING = tuple(Selector(link_layer=layer, functions=Functions.ALL) for layer in LinkLayer)
_CONCERNS_ALL = ("sys/devices/system", "var")
"""NUMA nodes, and the file that tells them, concern every HCA."""


class _Trees:
    """A machine's tree, and what is known of it while it is whole."""

    def __init__(self, name: str, folder: Path) -> None:
        root = folder / "root"
        write_tree(read_manifest(MACHINES / f"{name}.machine"), root, make_node=StandInNodes().make)
        self.root = root
        self.mutations = Mutations(root)
        self.whole = seen(root)
        self.everything = {hca.name: hca for hca in seen(root, *_EVERYTHING).hcas}
        self.paths = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        self._own = {name: _own_paths(root, hca, self.everything) for name, hca in self.everything.items()}

    def concerned(self, path: str) -> set[str]:
        """The HCAs that a change of ``path`` may concern."""
        if _meets(path, _CONCERNS_ALL):
            return set(self.everything)
        return {name for name, own in self._own.items() if _meets(path, own)}


def _own_paths(root: Path, hca: Hca, everything: dict[str, Hca]) -> tuple[str, ...]:
    """Where the tree tells of an HCA: its function, and its entries in each class, on the bus and in dev."""
    nodes = (hca.uverbs, *hca.umads)
    links = [f"sys/bus/pci/devices/{hca.address}", f"sys/class/infiniband/{hca.name}"]
    links += [f"sys/class/infiniband_{_subsystem(node)}/{node.name}" for node in nodes]
    folders = [str((root / link).resolve().relative_to(root.resolve())) for link in links]
    own = (*links, *folders, *(f"dev/infiniband/{node.name}" for node in nodes))
    parent = next((one for one in everything.values() if one.address == hca.parent), None)
    return own if parent is None else (*own, *_own_paths(root, parent, everything))


def _subsystem(node: DeviceNode) -> str:
    return "verbs" if node.name.startswith("uverbs") else "mad"


def _meets(path: str, others: tuple[str, ...]) -> bool:
    """Whether ``path`` is one of ``others``, above it or below it."""
    return any(f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/") for other in others)


class _InTheMiddle:
    """Nodes that are read in the middle of a look, just when something happens."""

    def __init__(self, nodes: DeviceNodes, happens: Callable[[], None]) -> None:
        self._nodes = nodes
        self._happens: Callable[[], None] | None = happens

    def read(self, path: Path) -> DeviceNode | None:
        if self._happens is not None:
            self._happens()
            self._happens = None
        return self._nodes.read(path)

    def make(self, path: Path, node: DeviceNode) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module", params=_MACHINES)
def trees(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Trees:
    """The tree of one machine, lent to many examples, each of which leaves it as it was."""
    return _Trees(request.param, tmp_path_factory.mktemp(request.param))


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_tree_misleads_discovery(trees: _Trees, data: st.DataObject) -> None:
    """Whatever is odd in a tree, other HCAs stay as they are, and each one concerned is sound or has a reason.

    The kinds of B-DP-3, B-DP-14, B-DP-18 and B-DP-56, on every entry of a tree, also in the middle of a look.
    """
    change = st.tuples(st.sampled_from(trees.paths), st.sampled_from(CHANGES))
    changes = data.draw(st.lists(change, min_size=1, max_size=3))
    in_the_middle = data.draw(st.booleans())
    with ExitStack() as undo:

        def happens() -> None:
            for path, kind in changes:
                undo.enter_context(trees.mutations.made(path, kind))

        if not in_the_middle:
            happens()
        nodes = _InTheMiddle(StandInNodes(), happens if in_the_middle else lambda: None)
        machine = discover(read_whole_machine(trees.root, nodes))
        listed = {path.name for path in (trees.root / "sys/class/infiniband").glob("*") if path.is_dir()}
    concerned = {name for path, _ in changes for name in trees.concerned(path)}
    assert msgspec.json.encode(machine)
    _assert_others_are_as_before(trees.whole, machine, concerned)
    _assert_nothing_unsound(trees.everything, machine)
    _assert_reasons(trees.whole, machine, concerned, listed)


def _assert_others_are_as_before(before: Machine, after: Machine, concerned: set[str]) -> None:
    assert [hca for hca in before.hcas if hca.name not in concerned] == [
        hca for hca in after.hcas if hca.name not in concerned
    ]


def _assert_nothing_unsound(everything: dict[str, Hca], after: Machine) -> None:
    """What is offered has its own address and node, and a NUMA node that is its own or none."""
    numbers = {node.number for node in after.numa_nodes}
    for hca in after.hcas:
        whole = everything[hca.name]
        assert (hca.address, hca.uverbs) == (whole.address, whole.uverbs)
        assert hca.numa_node is None or hca.numa_node in numbers
        # On a machine that shows one node alone everything is there, whatever the firmware forgot.
        assert hca.numa_node in {None, whole.numa_node} or whole.numa_node is None or len(numbers) == 1
        assert LinkLayer.INFINIBAND in {port.link_layer for port in hca.ports}
        assert set(hca.umads) <= set(whole.umads)
    assert len({hca.address for hca in after.hcas}) == len(after.hcas)


def _assert_reasons(before: Machine, after: Machine, concerned: set[str], listed: set[str]) -> None:
    """An HCA that is not offered any more has a reason, unless the kernel does not list it any more."""
    told = {hca.name for hca in after.hcas} | {one.name for one in after.excluded}
    missing = {hca.name for hca in before.hcas} - told
    assert missing <= concerned - listed
