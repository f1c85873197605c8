"""Every label, resource, path and port that other programs see: the only place for such a literal.

It must hold no logic and no default of a setting that is nobody's contract.
"""

from typing import Final

RESOURCE: Final = "vke.volcengine.com/infiniband-rdma"
"""The extended resource that a pod asks for (the platform's document, step three)."""

GPU_RESOURCE: Final = "nvidia.com/gpu"
"""The resource of NVIDIA's device plugin, whose ids are the GPUs' UUIDs."""

CPU_RESOURCE: Final = "cpu"
MEMORY_RESOURCE: Final = "memory"
"""The two resources that decide a pod's QoS class, and that the kubelet's own managers align."""

MODE_LABEL: Final = "vke.node.rdma.mode"
"""The node label that picks the mode (the platform's document, step two)."""

AGENT_HOST: Final = "127.0.0.1"
AGENT_PORT: Final = 9471
"""Where the agent answers /livez, /readyz and /status: loopback unless told otherwise."""

EXTENDER_HOST: Final = "127.0.0.1"
EXTENDER_PORT: Final = 9472
"""Where the extender answers the scheduler beside it."""

EXTENDER_PROBE_PORT: Final = 9473
"""Where it answers probes, and people."""

SCHEDULER: Final = "railside-scheduler"
"""The scheduler that asks it, where it is not the cluster's own: pods name it by spec.schedulerName."""

NAMESPACE: Final = "railside"
"""Where all of it is installed."""

RECORD_GROUP: Final = "railside.dev"
RECORD_VERSION: Final = "v1alpha1"
RECORD_PLURAL: Final = "rdmanodes"
RECORD_KIND: Final = "RDMANode"
"""The object in which an agent publishes its node's record, under the node's name."""

RECORD_API: Final = f"{RECORD_GROUP}/{RECORD_VERSION}"
RECORDS: Final = f"/apis/{RECORD_API}/{RECORD_PLURAL}"
"""Where the API server keeps them."""

KUBELET_DIR: Final = "/var/lib/kubelet"
DEVICE_PLUGINS: Final = "device-plugins"
"""The folder of sockets below the kubelet's; the kubelet empties it of sockets at its start."""

POD_RESOURCES: Final = "pod-resources"
"""The folder below the kubelet's with the socket on which it tells who holds what."""

KUBELET_PORT: Final = 10250
"""Where a kubelet answers over HTTPS, unless its Node says otherwise."""

KUBELET_SOCKET: Final = "kubelet.sock"
DEVICE_PLUGIN_API: Final = "v1beta1"

RUN_DIR: Final = "run/railside"
"""Below the machine's root: directories of containers. On a tmpfs, so that a reboot empties it."""

CONTAINER_DEVICES: Final = "/dev/infiniband"
"""Where a container finds the device nodes of its HCAs, under their true names."""

CONTAINER_INFO: Final = "/run/railside"
"""Where a container finds what it was given; one folder for each pool."""

TOPOLOGY_DIR: Final = "var/run/nvidia-topologyd"
"""Below the machine's root: where a virtual machine is told the real topology of its GPUs and HCAs."""

TOPOLOGY_FILE: Final = "virtualTopology.xml"

AGENT_ENVIRONMENT: Final = "RAILSIDE_AGENT_"
"""Prefix of the environment variables that set the agent."""

EXTENDER_ENVIRONMENT: Final = "RAILSIDE_EXTENDER_"
"""Prefix of the environment variables that set the extender."""

STATE_DIR: Final = "var/lib/railside"
"""Below the machine's root: what must outlive a reboot, as the kubelet's checkpoint does."""

KUBELET_CHECKPOINT: Final = "kubelet_internal_checkpoint"
"""In the folder of sockets: what the kubelet has dealt to whom."""

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
"""The node label that names the machine type, such as ecs.hpcpni3.45xlarge."""

LOCALITY: Final = "railside.dev/locality"
"""The pod annotation that says how near HCA and GPU must be."""

LOCALITY_ENFORCE: Final = "railside.dev/locality-enforce"
"""The pod annotation that has a container wait until that nearness holds."""

WAKE: Final = "railside.dev/wake"
"""The node annotation by whose change the scheduler tries refused pods again; its value means nothing."""

MIRROR_POD: Final = "kubernetes.io/config.mirror"
STATIC_POD_UID: Final = "kubernetes.io/config.hash"
"""Annotations of a static pod's mirror: both hold the UID by which the kubelet itself knows the pod."""

AGENT_COMPONENT: Final = "railside-agent"
"""Who reports the agent's Events, and whose fields those of a node's record are."""

SERVICE_ACCOUNT_DIR: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its token, and the certificate of the cluster's authority."""

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
"""Another one at each boot, and the same in each container; the kubelet tells it as the Node's bootID."""

NCCL_CONFIG_FILE: Final = "nccl.conf"
NCCL_CONFIG_VARIABLE: Final = "NCCL_CONF_FILE"
"""How NCCL is told where its settings are, beside /etc/nccl.conf."""

GPU_RESOURCES: Final = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "amd.com/gpu")
CONFLICTING_RESOURCES: Final = ("vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory")
"""Shared GPUs of the platform, which its document bars from use together with RDMA."""

RECORDER_DIR: Final = f"{STATE_DIR}/recorder"
"""Below the machine's root: the agent's last inputs and decisions."""

AGENT_LOCK: Final = f"{RUN_DIR}/agent.lock"
"""Below the machine's root: held by the one agent that serves it."""
