"""The tests that show each law's harm on the real kubelet: where they stand. It must not run them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

CLUSTER: Final = Path(__file__).parents[1] / "cluster"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One test, by its file in tests/cluster and its name."""

    file: str
    test: str

    @property
    def sentence(self) -> str:
        """Its name, for people."""
        return self.test.removeprefix("test_").replace("_", " ").replace("hca", "HCA")


def _in(file: str, *tests: str) -> tuple[Shown, ...]:
    return tuple(Shown(file=f"{file}.py", test=f"test_{test}") for test in tests)


HARMS: Final[Mapping[int, tuple[Shown, ...]]] = {
    1: _in(
        "test_harm_missing_ids",
        "a_held_id_that_is_gone_crashes_the_kubelet_at_every_start",
        "an_id_that_goes_while_the_kubelet_asks_for_it_crashes_it",
    ),
    2: _in("test_harm_missing_ids", "a_foreign_id_that_nobody_adopts"),
    3: (
        *_in("test_harm_restarts", "a_plugin_that_comes_late", "held_ids_that_are_unhealthy_at_a_restart"),
        *_in("proof_harms", "a_container_that_has_restarted_once"),
    ),
    4: _in("test_harm_hints", "a_bare_id_beside_hinted_ones", "hints_that_come_to_held_ids"),
    5: (
        *_in("test_harm_listing", "pods_are_listed_while_one_is_dealt_its_hca"),
        *_in("proof_harms", "a_list_of_pods_gives_one_hca_to_two"),
    ),
    6: _in("test_harm_missing_ids", "a_plugin_that_believes_the_list_of_pods_at_a_start"),
    7: _in("test_harm_modes", "a_switch_to_one_container_an_hca"),
    8: _in(
        "test_harm_dead_hcas",
        "a_dead_hca_that_is_unhealthy_while_it_is_held",
        "a_dead_hca_that_is_healthy_when_its_holder_goes",
    ),
    9: _in(
        "test_harm_starts",
        "an_empty_directory_starts_a_container_without_its_hca",
        "a_renumbered_node_is_handed_over_as_it_is_by_then",
        "a_boot_that_finds_the_hcas_in_another_order",
    ),
}
"""By the number of the law."""
