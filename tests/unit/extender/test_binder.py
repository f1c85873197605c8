"""The bind verb, which the operator may choose."""

import json

import pytest
from tests.unit.extender.nodes import cluster, pod, record
from tests.unit.extender.test_decider import decider

from railside_extender.binder import Binder
from railside_extender.wire import BindingArgs
from railside_runtime.kube_error import CONFLICT, UNREACHED, KubeError

ASKED = BindingArgs("p", "default", "uid-p", "a")


class _Api:
    """Refuses bindings as told, and shows a pod on some node."""

    def __init__(self, status: int | None = None, *, node: str = "", uid: str = "uid-p") -> None:
        self.posted: list[tuple[str, object]] = []
        self._status = status
        self._pod = {"metadata": {"uid": uid}, "spec": {"nodeName": node}}

    async def post(self, path: str, body: object) -> bytes:
        self.posted.append((path, body))
        if self._status is not None:
            raise KubeError(self._status, "refused")
        return b"{}"

    async def get(self, path: str) -> bytes:
        assert path == "/api/v1/namespaces/default/pods/p"
        return json.dumps(self._pod).encode()


async def test_a_pod_is_bound_by_its_uid() -> None:
    """A pod of the same name that came in its place is not bound instead."""
    api = _Api()
    assert await Binder(api, lambda *_: None).bind(ASKED) == ""
    ((path, body),) = api.posted
    assert path == "/api/v1/namespaces/default/pods/p/binding"
    assert body["metadata"]["uid"] == "uid-p"  # type: ignore[index]


@pytest.mark.parametrize(
    ("api", "said"),
    [
        pytest.param(_Api(CONFLICT, node="a"), "", id="the answer to an earlier try was lost"),
        pytest.param(_Api(UNREACHED, node="a"), "", id="or to this one"),
        pytest.param(_Api(CONFLICT, node="b"), "refused", id="it is elsewhere"),
        pytest.param(_Api(CONFLICT, node="a", uid="another"), "refused", id="another of that name is there"),
        pytest.param(_Api(UNREACHED), "refused", id="it is nowhere"),
    ],
)
async def test_a_pod_that_is_bound_already_is_bound(api: _Api, said: str) -> None:
    """Binding is done when the pod is there, whatever was heard of it (G13, B-SC-4)."""
    assert await Binder(api, lambda *_: None).bind(ASKED) == said


async def test_what_is_no_fit_by_now_is_not_bound() -> None:
    """Between the filter and the bind another pod may have come: the node is known now, and looked at again."""
    known = cluster(record(hcas=(4, 0), gpus=(4, 0)))
    one, api = decider(known), _Api()
    known.see_pod("uid-p", pod("p", gpus=4, hcas=4), 0.0)
    binder = Binder(api, lambda uid, node: one.obstacle(uid, node, 0.0))
    known.see_pod("uid-q", pod("q", gpus=4, hcas=4, node="a"), 0.0)
    assert (await binder.bind(ASKED)).startswith("PodsOnTheirWay: ")
    known.see_pod("uid-q", None, 0.0)
    assert await binder.bind(ASKED) == ""
    assert len(api.posted) == 1
    assert known.holds["uid-p"].nodes == {"a"}
