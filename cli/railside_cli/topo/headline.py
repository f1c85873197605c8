"""The machine in one line, and the exit status that goes with it: what an agent could offer here.

Whether an HCA is of use is the agent's own answer, in ``railside_agent.health``; it must not be given here anew.
"""

from collections.abc import Iterable

from railside_agent.health import illness, obstacle
from railside_agent.status import nothing_found
from railside_cli.exit_status import FINDING, FINE, UNREACHABLE
from railside_proto.machine import Gpu, Hca, Machine, PathClass, path_class
from railside_proto.reasons import Code, Reason
from railside_runtime.words import counted


def verdict(machine: Machine) -> str:
    """The machine in one line."""
    near = sum(1 for gpu in machine.gpus if _nearest(gpu, machine.hcas) <= PathClass.PXB)
    gpus = f"{counted(len(machine.gpus), 'GPU')}, {near} beside an HCA" if machine.gpus else "no GPU"
    return f"{_hcas(machine)}; {gpus}; {counted(len(machine.numa_nodes), 'NUMA node')}"


def status(machine: Machine) -> int:
    """The exit status: whether there is anything to look at, and whether all of it can be used."""
    if not machine.hcas and not machine.excluded:
        return UNREACHABLE
    return FINE if machine.hcas and _sound(machine) == len(machine.hcas) else FINDING


def ill(machine: Machine) -> tuple[Reason, ...]:
    """Why HCAs that could be offered cannot be used now, each by itself."""
    return tuple(why for hca in machine.hcas if (why := illness(hca)) is not None)


def _hcas(machine: Machine) -> str:
    nothing = nothing_found(machine)
    if nothing is None:
        found = f"{_sound(machine)} of {counted(len(machine.hcas), 'HCA')} sound"
        return f"{found}, {len(machine.excluded)} left out"
    found = "no HCA found" if nothing.code is Code.NO_RDMA_DEVICES else "no HCA to offer"
    return f"{found}, {len(machine.excluded)} left out" if machine.excluded else found


def _sound(machine: Machine) -> int:
    """How many HCAs a container could use: none, where the machine itself is in the way."""
    return 0 if obstacle(machine) else len(machine.hcas) - len(ill(machine))


def _nearest(gpu: Gpu, hcas: Iterable[Hca]) -> PathClass:
    return min((path_class(gpu, hca) for hca in hcas), default=PathClass.SYS)
