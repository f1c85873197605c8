"""The manifests of deploy/scheduler: what they say is what the programs know, and grants no more than is used."""

import subprocess
import sys
from typing import Any

import pytest
import yaml
from tests.conftest import REPOSITORY

from railside_extender.settings import EXTENDER_SETTINGS
from railside_proto.names import (
    EXTENDER_PORT,
    EXTENDER_PROBE_PORT,
    NAMESPACE,
    RECORD_GROUP,
    RECORD_PLURAL,
    RESOURCE,
    SCHEDULER,
    WAKE,
)

FOLDER = REPOSITORY / "deploy/scheduler"
WORKLOADS = ("deployment.yaml", "beside/daemonset.yaml")


def objects(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8")))


def pod_spec(file: str) -> dict[str, Any]:
    (workload,) = objects(file)
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def containers(file: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in pod_spec(file)["containers"]}


def test_the_committed_configurations_are_what_their_source_gives() -> None:
    """Who changes one by hand, or its source alone, is told which."""
    script = REPOSITORY / "scripts/scheduler_configs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)  # noqa: S603 -- our own script
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta1"])
def test_a_configuration_has_one_profile_of_its_own_and_one_extender(version: str) -> None:
    """Each version says the same: all nodes are looked at, and our pods wait for the extender and for no other."""
    (found,) = objects(f"config/{version}.yaml")
    assert found.pop("apiVersion") == f"kubescheduler.config.k8s.io/{version}"
    lease = {"resourceLock": "leases", "resourceName": SCHEDULER, "resourceNamespace": NAMESPACE}
    (part,) = objects("beside/part.yaml")
    assert found == {
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, **lease},
        "profiles": [{"schedulerName": SCHEDULER}],
        **part,
    }
    (extender,) = found["extenders"]
    assert extender.pop("managedResources") == [{"name": RESOURCE, "ignoredByScheduler": False}]
    assert extender == {
        "urlPrefix": f"http://127.0.0.1:{EXTENDER_PORT}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 10,
        "httpTimeout": "1s",
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    assert found["percentageOfNodesToScore"] == 100


def test_the_extender_may_look_at_three_kinds_of_objects_and_touch_nodes() -> None:
    """Nodes, pods and records, to list and watch them; a node it may touch, and a policy says where."""
    (role,) = objects("rights/clusterrole.yaml")
    assert {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    } == {
        (group, resource, verb)
        for group, resource in (("", "nodes"), ("", "pods"), (RECORD_GROUP, RECORD_PLURAL))
        for verb in ("list", "watch")
    } | {("", "nodes", "patch")}
    policy, binding = objects("rights/admission.yaml")
    (told,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (told["resources"], told["operations"]) == (["nodes"], ["UPDATE"])
    assert any(f"'{WAKE}'" in variable["expression"] for variable in policy["spec"]["variables"])
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (
        policy["metadata"]["name"],
        ["Deny"],
    )


@pytest.mark.parametrize("file", WORKLOADS)
def test_no_container_can_do_what_it_need_not(file: str) -> None:
    """Not root, no capability, nothing to write to, and the calls that the runtime lets through."""
    security = pod_spec(file)["securityContext"]
    assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert security["runAsUser"] > 0
    for container in containers(file).values():
        assert container["securityContext"] == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("file", WORKLOADS)
def test_the_extender_is_probed_where_it_answers(file: str) -> None:
    """Probes ask its own port, and what is set in the environment is a setting of it, and never of its verbs."""
    extender = containers(file)["extender"]
    probes = [extender[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {EXTENDER_PROBE_PORT}
    assert [probe["path"] for probe in probes] == ["/livez", "/livez", "/readyz"]
    set_here = {variable["name"] for variable in extender.get("env", ())}
    assert set_here <= {EXTENDER_SETTINGS.variable("probeHost")}
    assert bool(set_here) != bool(pod_spec(file).get("hostNetwork"))
