from pathlib import Path

import pytest
from tests.unit.builders import TWO_NUMA, hca_names, left_out, one_device, seen, tree

from railside_proto.machine import LinkLayer, Machine
from railside_proto.pool import Functions, Selector
from railside_proto.reasons import Code

_ETHERNET = Selector(link_layer=LinkLayer.ETHERNET)
_SOFTWARE = Selector(link_layer=LinkLayer.ETHERNET, software=True)
_SR_IOV = (
    one_device("link=InfiniBand state=ACTIVE")
    + """
hca pci0000:15/0000:15:01.0/0000:16:00.1 numa=0 name=mlx5_1 uverbs=1 guid=5c25:7303:00a1:4c11 physfn=0000:16:00.0
port mlx5_1 1 link=InfiniBand state=ACTIVE
"""
)
_PARENT_ELSEWHERE = one_device("link=InfiniBand state=ACTIVE", facts="uverbs=0 physfn=0000:16:00.7") + (
    "\nlink sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/physfn ../0000:16:00.7"
)
_RXE = """
hca virtual name=rxe0 guid=5c25:7303:00a1:4c10 uverbs=0
port rxe0 1 link=Ethernet state=ACTIVE
"""


def _functions(functions: Functions) -> Selector:
    return Selector(functions=functions)


@pytest.mark.parametrize(
    ("text", "selector", "hcas", "excluded"),
    [
        pytest.param(
            _SR_IOV, _functions(Functions.AUTO), ["mlx5_0"], {"mlx5_1": Code.VIRTUAL_FUNCTION}, id="auto"
        ),
        pytest.param(
            _SR_IOV, _functions(Functions.PHYSICAL), ["mlx5_0"], {"mlx5_1": Code.VIRTUAL_FUNCTION}, id="physical"
        ),
        pytest.param(
            _SR_IOV, _functions(Functions.VIRTUAL), ["mlx5_1"], {"mlx5_0": Code.PHYSICAL_FUNCTION}, id="virtual"
        ),
        pytest.param(_SR_IOV, _functions(Functions.ALL), ["mlx5_0", "mlx5_1"], {}, id="all"),
        pytest.param(_PARENT_ELSEWHERE, _functions(Functions.AUTO), ["mlx5_0"], {}, id="parent-not-to-be-seen"),
        pytest.param(
            _PARENT_ELSEWHERE,
            _functions(Functions.PHYSICAL),
            [],
            {"mlx5_0": Code.VIRTUAL_FUNCTION},
            id="parent-not-to-be-seen-but-physical-ones-wanted",
        ),
        pytest.param(
            _SR_IOV,
            _ETHERNET,
            [],
            {"mlx5_0": Code.LINK_LAYER_UNWANTED, "mlx5_1": Code.VIRTUAL_FUNCTION},
            id="ethernet-wanted",
        ),
        pytest.param(one_device("link=Ethernet state=ACTIVE"), _ETHERNET, ["mlx5_0"], {}, id="roce"),
        pytest.param(
            one_device("link=Unspecified state=ACTIVE"),
            Selector(link_layer=LinkLayer.UNSPECIFIED),
            ["mlx5_0"],
            {},
            id="unspecified-wanted",
        ),
    ],
)
def test_what_a_selector_takes(
    tmp_path: Path, text: str, selector: Selector, hcas: list[str], excluded: dict[str, Code]
) -> None:
    """Link layer and kind of function decide, and what is not taken has the reason (B-DP-5, B-DP-20)."""
    machine = seen(tree(text, tmp_path), selector)
    assert (hcas, excluded) == (hca_names(machine), left_out(machine))


def test_a_virtual_function_knows_its_physical_one(tmp_path: Path) -> None:
    """Whoever filters later finds the parent, and whether it is on this machine, at the HCA."""
    everything = seen(tree(_SR_IOV, tmp_path), _functions(Functions.ALL))
    parents = [(hca.parent, hca.parent_seen) for hca in everything.hcas]
    assert parents == [(None, False), ("0000:16:00.0", True)]


def test_a_physical_function_is_seen_by_its_rdma_device_too(tmp_path: Path) -> None:
    """Where the bus does not list the physical function, its RDMA device still keeps the virtual one back."""
    root = tree(_SR_IOV, tmp_path)
    (root / "sys/bus/pci/devices/0000:16:00.0").unlink()
    assert hca_names(seen(root)) == ["mlx5_0"]


def test_several_selectors_take_what_any_of_them_takes(tmp_path: Path) -> None:
    """InfiniBand beside RoCE: the machine has the HCAs of both pools."""
    roce = """
    hca pci0000:26/0000:26:01.0/0000:27:00.0 numa=0 name=mlx5_8 uverbs=8 guid=5c25:7303:00a1:4c18
    port mlx5_8 1 link=Ethernet state=ACTIVE
    """
    machine = seen(tree(_SR_IOV + roce, tmp_path), Selector(), _ETHERNET)
    assert (hca_names(machine), left_out(machine)) == (["mlx5_0", "mlx5_8"], {"mlx5_1": Code.VIRTUAL_FUNCTION})


class TestSoftwareDevices:
    def _seen(self, tmp_path: Path, text: str, selector: Selector = _SOFTWARE) -> Machine:
        return seen(tree(TWO_NUMA + text, tmp_path), selector)

    def test_known_by_guid(self, tmp_path: Path) -> None:
        """A device without function is known by its node GUID where that is allowed, and sits nowhere."""
        (hca,) = self._seen(tmp_path, _RXE).hcas
        assert (hca.address, hca.path, hca.numa_node) == ("guid:5c25:7303:00a1:4c10", (), None)
        assert (hca.name, hca.uverbs.name, hca.software) == ("rxe0", "uverbs0", True)

    @pytest.mark.parametrize(
        ("text", "selector", "expected"),
        [
            pytest.param(_RXE, _ETHERNET, {"rxe0": Code.NO_PCI_FUNCTION}, id="not-allowed"),
            pytest.param(
                _RXE, Selector(software=True), {"rxe0": Code.ETHERNET_LINK}, id="allowed-with-another-link-layer"
            ),
            pytest.param(
                _RXE.replace("5c25:7303:00a1:4c10", "0000:0000:0000:0000"),
                _SOFTWARE,
                {"rxe0": Code.NO_GUID},
                id="guid-of-zeros",
            ),
            pytest.param(
                _RXE + _RXE.replace("rxe0", "rxe1").replace("uverbs=0", "uverbs=1"),
                _SOFTWARE,
                {"rxe0": Code.GUID_NOT_UNIQUE, "rxe1": Code.GUID_NOT_UNIQUE},
                id="two-of-one-guid",
            ),
            pytest.param(
                _RXE.replace(" uverbs=0", ""), _SOFTWARE, {"rxe0": Code.UVERBS_MISSING}, id="not-complete"
            ),
        ],
    )
    def test_left_out(self, tmp_path: Path, text: str, selector: Selector, expected: dict[str, Code]) -> None:
        """One that nobody allowed, that cannot be told from others, or that is not complete is left out."""
        machine = self._seen(tmp_path, text, selector)
        assert (machine.hcas, left_out(machine)) == ((), expected)

    def test_only_the_selector_that_allows_them_takes_them(self, tmp_path: Path) -> None:
        """Software devices allowed among InfiniBand's are not allowed among Ethernet's."""
        machine = seen(tree(TWO_NUMA + _RXE, tmp_path), Selector(software=True), _ETHERNET)
        assert (machine.hcas, left_out(machine)) == ((), {"rxe0": Code.NO_PCI_FUNCTION})
