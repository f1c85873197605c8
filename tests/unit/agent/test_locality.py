import pytest

from railside_agent.locality import enforced
from railside_agent.pods import Pod, Pods
from railside_proto.machine import PathClass


@pytest.mark.parametrize(
    ("locality", "enforce", "expected"),
    [
        pytest.param("required-pcie", True, PathClass.PXB, id="pcie"),
        pytest.param("required-numa", True, PathClass.NODE, id="numa"),
        pytest.param("required-pcie", False, None, id="not-enforced"),
        pytest.param("preferred", True, None, id="preferred"),
        pytest.param("none", True, None, id="none"),
        pytest.param(None, True, None, id="not-said"),
        pytest.param("required-luck", True, None, id="unknown-word"),
    ],
)
def test_what_a_pod_insists_on(locality: str | None, *, enforce: bool, expected: PathClass | None) -> None:
    """A pod waits for nearness only where it requires it and says that it had rather wait."""
    pod = Pod(
        uid="p",
        name="train",
        namespace="default",
        ended=False,
        terminating=False,
        locality=locality,
        locality_enforce=enforce,
    )
    assert ({} if expected is None else {"p": expected}) == enforced(Pods(pods=(pod,), by_uid={"p": pod}))
