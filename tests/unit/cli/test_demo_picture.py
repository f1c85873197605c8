import io

import pytest
from rich.console import Console
from tests.unit.cli.demo_values import pod, the_hardware

from railside_cli.demo.page import Page, signs
from railside_cli.demo.picture import Scene, node_grid, pod_table
from railside_cli.demo.sight import Seen


def page(encoding: str = "utf-8", width: int = 80) -> tuple[Page, io.BytesIO]:
    """A page of a terminal without colours, and what is printed on it."""
    written = io.BytesIO()
    file = io.TextIOWrapper(written, encoding=encoding, write_through=True)
    return Page(Console(file=file, width=width, highlight=False, emoji=False)), written


def drawn(
    *pods: Seen, marked: frozenset[str] = frozenset(), width: int = 80, encoding: str = "utf-8"
) -> list[str]:
    paper, written = page(encoding, width)
    paper.show(node_grid(Scene(hardware=the_hardware(), pods=pods, marked=marked), paper.signs, width))
    return written.getvalue().decode(encoding).splitlines()


def test_a_pair_stands_in_one_column() -> None:
    """GPU and HCA of one switch stand below each other, and their pod below both."""
    lines = drawn(pod("train", "mlx5_3", gpus=(1,)))
    assert lines[0].split("  ")[0].strip() == ""
    assert [line.find("train") for line in lines if "train" in line] == [lines[1].find("GPU1")] * 2
    assert lines[3].find("mlx5_3") == lines[1].find("GPU1")


def test_a_pair_of_two_switches_stands_in_two_columns() -> None:
    """An HCA that is farther off is seen at a glance."""
    lines = drawn(pod("train", "mlx5_4", gpus=(1,)))
    above, below = (line.find("train") for line in lines if "train" in line)
    assert (above, below) == (lines[1].find("GPU1"), lines[3].find("mlx5_4"))
    assert above != below


def test_an_hca_of_two_pods_shows_both() -> None:
    """Those who share an HCA stand below each other."""
    lines = drawn(pod("b", "mlx5_0"), pod("a", "mlx5_0"))
    assert [line.split()[0] for line in lines[4:]] == ["a", "b"]


def test_an_ill_hca_is_marked_without_colour() -> None:
    """A letter says what colour would."""
    assert "mlx5_4 ✗" in drawn(marked=frozenset({"mlx5_4"}))[3]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_picture_fits_a_terminal(encoding: str) -> None:
    """No line is longer than 80 letters, with the letters that the terminal has."""
    lines = drawn(pod("train-0", "mlx5_9", gpus=(7,)), marked=frozenset({"mlx5_8"}), encoding=encoding)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 5


def test_a_narrow_terminal_gets_one_numa_node_below_the_other() -> None:
    """Where the NUMA nodes have no room side by side, none is cut off."""
    lines = drawn(width=50)
    assert max(map(len, lines)) <= 50
    assert [line.strip() for line in lines if "NUMA" in line] == ["NUMA node 0", "NUMA node 1"]


def test_the_table_says_what_each_pod_sees() -> None:
    """One line a pair, a dot where there is no GPU, and the device nodes once."""
    paper, written = page()
    paper.show(pod_table([pod("duo", "mlx5_6", "mlx5_7", gpus=(4, 5)), pod("lone", "mlx5_0")], paper.signs))
    assert [line.split() for line in written.getvalue().decode().splitlines()[1:]] == [
        ["duo", "GPU4", "mlx5_6", "PIX", "rdma_cm", "uverbs5", "uverbs6"],
        ["GPU5", "mlx5_7", "PIX"],
        ["lone", "·", "mlx5_0", "·", "rdma_cm", "uverbs0"],
    ]


def test_a_page_is_set_in_parts() -> None:
    """An empty line stands between parts, but not below a title, nor between a paragraph and its quote."""
    paper, written = page(width=40)
    paper.title("1. First")
    paper.say("It begins, and goes on for longer than one line has room.")
    paper.quote("somebody", "a word")
    paper.title("2. Second")
    lines = written.getvalue().decode().splitlines()
    assert lines[0] == "1. First ".ljust(40, "─")
    assert lines[3:] == ["│ somebody:", "│   a word", "", "2. Second ".ljust(40, "─")]
    assert paper.heading == "2. Second"


@pytest.mark.parametrize(("width", "lines"), [(29, 1), (28, 2), (26, 2), (8, 6)])
def test_a_heading_keeps_its_rule_on_a_narrow_terminal(width: int, lines: int) -> None:
    """A heading that is too long goes on below, and ends in three letters of its rule at least."""
    paper, written = page(width=width)
    paper.title("2. Pods ask for many GPUs")
    told = written.getvalue().decode().splitlines()
    assert (len(told), told[-1][-3:]) == (lines, "───")
    assert max(map(len, told)) <= width


def test_a_poor_terminal_gets_poor_letters() -> None:
    """Nothing is printed that an ASCII terminal cannot show."""
    paper, _ = page("ascii")
    assert "".join(paper.signs).isascii()
    assert not "".join(signs(page()[0]._console)).isascii()  # noqa: SLF001 -- the same console
