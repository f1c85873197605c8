"""Several answers for one container, as a pure function."""

from railside_proto.pb.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DeviceSpec, Mount
from railside_sim.run_options import merged


def answer(host: str) -> ContainerAllocateResponse:
    return ContainerAllocateResponse(
        envs={"A": host, host: ""},
        devices=[DeviceSpec(container_path="/d", host_path=host), DeviceSpec(container_path=f"/{host}")],
        mounts=[Mount(container_path="/m", host_path=host), Mount(container_path=f"/{host}")],
    )


def test_the_first_that_comes_wins() -> None:
    """A variable, a device path and a mount path that two plugins use are the first one's; the rest adds up."""
    one = merged([answer("x"), answer("y")])
    assert dict(one.envs) == {"A": "x", "x": "", "y": ""}
    assert [(each.container_path, each.host_path) for each in one.devices] == [("/d", "x"), ("/x", ""), ("/y", "")]
    assert [(each.container_path, each.host_path) for each in one.mounts] == [("/m", "x"), ("/x", ""), ("/y", "")]
