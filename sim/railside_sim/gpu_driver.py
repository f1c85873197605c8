"""/proc/driver/nvidia of a machine: what NVIDIA's driver prints of each GPU.

It answers for the text of the ``information`` files. It must not know of PCI paths.
"""

from typing import Final

from railside_sim.parts import GpuPart
from railside_sim.tree_writer import TreeWriter

_NVIDIA: Final = "0x10de"
_FIRST_IRQ: Final = 401
_DRIVER: Final = "535.161.08"


def write_gpu_driver(tree: TreeWriter, gpus: tuple[GpuPart, ...]) -> None:
    """Writes one ``information`` file for each NVIDIA GPU that has a UUID."""
    for gpu in gpus:
        if gpu.uuid and gpu.function.vendor == _NVIDIA:
            tree.text(f"proc/driver/nvidia/gpus/{gpu.function.address}/information", _information(gpu))


def _information(gpu: GpuPart) -> str:
    return (
        f"Model: \t\t {gpu.model}\n"
        f"IRQ:   \t\t {_FIRST_IRQ + gpu.minor}\n"
        f"GPU UUID: \t {gpu.uuid}\n"
        "Video BIOS: \t 96.00.68.00.04\n"
        "Bus Type: \t PCIe\n"
        "DMA Size: \t 52 bits\n"
        "DMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {gpu.function.address}\n"
        f"Device Minor: \t {gpu.minor}\n"
        f"GPU Firmware: \t {_DRIVER}\n"
        "GPU Excluded:\t No\n"
    )
