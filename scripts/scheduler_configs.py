"""Render the kube-scheduler's configurations in deploy/scheduler, or check that the committed ones are so.

python scripts/scheduler_configs.py          write them
python scripts/scheduler_configs.py --check  write nothing; exit 1 and name each file that differs
"""

import sys
from pathlib import Path

from railside_proto.names import EXTENDER_HOST, EXTENDER_PORT, NAMESPACE, RESOURCE, SCHEDULER

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("deploy/scheduler")
RELEASES = {
    "v1": "from 1.25 on",
    "v1beta3": "1.23 to 1.28",
    "v1beta1": "1.19 to 1.22",
}
"""Which releases of Kubernetes know a version of the configuration; together these are all since 1.19."""

RENDERED = "# Rendered by scripts/scheduler_configs.py: change it there."

EXTENDERS = f"""\
extenders:
  # On loopback, as whoever reaches the extender may ask it.
  - urlPrefix: http://{EXTENDER_HOST}:{EXTENDER_PORT}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    # Scores are 0 to 10 and count a hundredfold by this, about as much as all of the scheduler's own together.
    weight: 10
    # The scheduler waits for each answer: more than a second would be a fault.
    httpTimeout: 1s
    # Names of nodes go over the wire, and not whole nodes.
    nodeCacheCapable: true
    # While the extender is away its pods wait: without it they would be turned away on their nodes.
    ignorable: false
    # Only pods that ask for this are asked about. The scheduler still counts it, as do autoscalers.
    managedResources:
      - name: {RESOURCE}
        ignoredByScheduler: false
"""


def configuration(version: str) -> str:
    """All that the dedicated scheduler is told, in one version of its API."""
    return f"""\
{RENDERED}
# For Kubernetes {RELEASES[version]}.
apiVersion: kubescheduler.config.k8s.io/{version}
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceName: {SCHEDULER}
  resourceNamespace: {NAMESPACE}
# The extender is asked last: of a sample of the nodes it might refuse all, and the pod would wait for nothing.
percentageOfNodesToScore: 100
profiles:
  - schedulerName: {SCHEDULER}
{EXTENDERS}"""


def part() -> str:
    """What a configuration of one's own gets added; it is the same in all versions."""
    return f"""\
{RENDERED}
# What the configuration file of a cluster's own kube-scheduler gets added (kube-scheduler --config FILE). README
# beside it tells the whole way.

# The extender is asked last: of a sample of the nodes it might refuse all. That can be where more than a hundred
# nodes have HCAs to give; in smaller clusters leave it out, as all nodes are looked at by it for every pod.
percentageOfNodesToScore: 100
{EXTENDERS}"""


def rendered() -> dict[Path, str]:
    """Each file's text, by its path below the repository."""
    return {
        **{FOLDER / "config" / f"{version}.yaml": configuration(version) for version in RELEASES},
        FOLDER / "beside" / "part.yaml": part(),
    }


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = [path for path, text in rendered().items() if not _is_so(ROOT / path, text)]
    for path in stale:
        if arguments:
            print(f"{path} is not what its source gives: run scripts/scheduler_configs.py", file=sys.stderr)
        else:
            (ROOT / path).write_text(rendered()[path], encoding="utf-8")
    return 1 if arguments and stale else 0


def _is_so(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
