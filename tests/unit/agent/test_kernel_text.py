import pytest

from railside_agent.kernel_text import guid, natural, netns_mode, pci_address, phys_state, short
from railside_proto.machine import NetnsMode


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:18:00.0", "0000:18:00.0"),
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:AF:00.0", "0000:af:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0034:01:00.0", "0034:01:00.0"),
        ("nonsense", "nonsense"),
    ],
)
def test_pci_addresses_have_one_spelling(text: str, expected: str) -> None:
    """Sysfs and NVIDIA's tools spell addresses differently; they compare as equal."""
    assert expected == pci_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5: LinkUp", "LinkUp"),
        ("7: Phy Test", "Phy Test"),
        ("LinkUp", ""),
        ("5: \x1b[1m", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_physical_state_is_the_kernels_word(text: str | None, expected: str) -> None:
    """Of the physical state the word is kept, and nothing that is none."""
    assert expected == phys_state(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5c25:7303:00A1:4c10", "5c25:7303:00a1:4c10"),
        ("0000:0000:0000:0000", ""),
        ("5c25:7303:00a1", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_guid_that_is_not_set_is_none(text: str | None, expected: str) -> None:
    """A GUID of zeros, as virtual functions have before they are set up, identifies nothing."""
    assert expected == guid(text)


def test_names_sort_by_their_numbers() -> None:
    """Sorting is that of a person: mlx5_2 comes before mlx5_10."""
    names = ["mlx5_10", "mlx5_bond_0", "mlx5_2", "ibp22s0", "mlx5_2b"]
    assert sorted(names, key=natural) == ["ibp22s0", "mlx5_2", "mlx5_2b", "mlx5_10", "mlx5_bond_0"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Y", NetnsMode.SHARED), ("N", NetnsMode.EXCLUSIVE), ("1", None), ("", None), (None, None)],
)
def test_the_mode_of_network_namespaces(text: str | None, expected: NetnsMode | None) -> None:
    """The kernel prints a yes or no; anything else says nothing."""
    assert expected == netns_mode(text)


def test_labels_can_be_printed() -> None:
    """A label keeps to one printable line, whatever the firmware holds."""
    assert (short("A card\x1b[1m"), short(None), len(short("x" * 5000))) == ("A card\\x1b[1m", "", 128)
