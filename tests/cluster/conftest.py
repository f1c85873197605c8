"""Answers for the fixtures ``cluster``, ``node`` and ``kubectl`` of the tests on a real cluster.

It must not skip: outside of tests/cluster/run these tests fail, and a run without a kubelet fails too.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ground import Ground, ground
from harness import commands
from harness.cluster import Cluster, MakeNode
from harness.kubectl import Kubectl
from harness.kubelet import NodeSettings
from harness.node import ClusterNode
from harness.places import Places

HERE = Path(__file__).parent
_SEED = pytest.StashKey[int]()
_SEED_VARIABLE = "RAILSIDE_SEED"
_TOLD = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


def pytest_report_header() -> str | None:
    """Say which Kubernetes runs."""
    if Places.of_this_run() is None:
        return None
    return f"cluster: {commands.run('kubelet', '--version').strip()}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    places = Places.of_this_run()
    if places is not None and exitstatus == pytest.ExitCode.OK and not places.kubelet_marker.exists():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    places = Places.of_this_run()
    if _SEED in config.stash:
        terminalreporter.write_line(f"Random choices: drawn again by {_SEED_VARIABLE}={config.stash[_SEED]}.")
    for text in config.stash.get(_TOLD, []):
        terminalreporter.write_line(text)
    if places is not None and not places.kubelet_marker.exists():
        terminalreporter.write_line("No real kubelet ran: this run proves nothing, and fails.", red=True)


@pytest.fixture(scope="session")
def places() -> Places:
    found = Places.of_this_run()
    if found is None:
        pytest.fail("These tests run in namespaces of their own: start them by tests/cluster/run.", pytrace=False)
    return found


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """What random choices are drawn from: fresh in each run, and told at its end."""
    pytestconfig.stash[_SEED] = int(os.environ.get(_SEED_VARIABLE) or secrets.randbelow(10**6))
    return pytestconfig.stash[_SEED]


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """``tell("...")`` has a text printed at the end of the run, whatever became of it."""
    return pytestconfig.stash.setdefault(_TOLD, []).append


@pytest.fixture(scope="session")
def fates(tell: Callable[[str], None]) -> Iterator[Counter[str]]:
    """What became of random pods, counted, and told at the run's end."""
    counted: Counter[str] = Counter()
    yield counted
    tell(f"Random pods: {', '.join(f'{count} {fate}' for fate, count in counted.most_common())}.")


@pytest.fixture(scope="session")
def cluster(places: Places) -> Iterator[Cluster]:
    """The cluster of this run, with no node yet."""
    with Cluster(places) as started:
        yield started


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    """Run kubectl as the cluster's administrator."""
    return cluster.kubectl


@pytest.fixture
def node(cluster: Cluster) -> Iterator[MakeNode]:
    """``node(numa=2, policy="best-effort", labels={...})`` makes a ready node that lasts for the test."""
    with ExitStack() as nodes:

        def make(
            *,
            numa: int = 1,
            policy: str = "none",
            scope: str = "container",
            labels: Mapping[str, str] | None = None,
            kubelet: Mapping[str, object] | None = None,
            name: str | None = None,
        ) -> ClusterNode:
            settings = NodeSettings(numa, policy, scope, labels or {}, kubelet or {})
            return nodes.enter_context(cluster.node(settings, name))

        yield make


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Ground]:
    """A node for careless plugins, under the policy that the platform asks for."""
    with ground(cluster) as made:
        yield made


@pytest.fixture
def on(shared: Ground) -> Iterator[Ground]:
    """The same, with nothing on it."""
    yield shared
    shared.clear()
