import pytest

from railside_proto.names import RESOURCE
from railside_proto.pool import Mode, Pool


def test_a_pool_is_called_by_the_last_word_of_its_resource() -> None:
    """The name of a pool is fit for file names."""
    assert Pool(resource="example.org/rdma").name == "rdma"


def test_the_default_pool_is_the_platforms() -> None:
    """Without settings the platform's resource is offered, one container an HCA."""
    assert Pool(resource=RESOURCE, mode=Mode.IB_SHARED, share=1) == Pool()


@pytest.mark.parametrize(
    ("mode", "text"), [(Mode.IB_SHARED, "ib-shared"), (Mode.IB_SHARED_MULTI, "ib-shared-multi")]
)
def test_modes_are_spelt_as_on_the_node(mode: Mode, text: str) -> None:
    """A mode is spelt as the platform's document spells the node label's value."""
    assert text == str(mode)
