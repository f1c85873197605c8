import threading
from pathlib import Path

from tests.conftest import MakeTree

from railside_agent.discovery import discover
from railside_agent.patient_look import look_once
from railside_agent.raw_machine import RawPortState
from railside_agent.sysfs import read_port_states, read_whole_machine
from railside_sim.stand_in_nodes import StandInNodes


def test_cards_that_answer_are_as_in_any_other_look(make_tree: MakeTree) -> None:
    """Asking all cards at once gives what asking one after the other gives."""
    root = make_tree("dual-port")
    assert look_once(root, StandInNodes()) == read_whole_machine(root, StandInNodes())


def test_a_card_that_hangs_holds_up_nobody(make_tree: MakeTree) -> None:
    """The others are told as they are, and the one that hangs is silent (B-DP-37)."""
    answer = threading.Event()

    def ask(root: Path, device: str) -> tuple[RawPortState, ...]:
        if device == "mlx5_0":
            answer.wait()
        return read_port_states(root, device)

    try:
        raw = look_once(make_tree("dual-port"), StandInNodes(), deadline_seconds=0.2, ask=ask)
    finally:
        answer.set()
    assert {hca.name: hca.silent for hca in discover(raw).hcas} == {
        "mlx4_0": False,
        "mlx5_0": True,
        "mlx5_1": False,
    }
