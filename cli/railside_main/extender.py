"""``railside-extender``: the extender as a program that an operator runs beside a kube-scheduler.

It must hold no decision about nodes or pods; what it prints is for the operator who starts it.
"""

from collections.abc import Sequence
from typing import Final

from railside_extender.app import Extender
from railside_extender.server import AddressError
from railside_extender.settings import EXTENDER_SETTINGS
from railside_main.program import Program, run_command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. The exit status is 0 when told to stop, 1 when something broke, 2 for bad usage."""
    return run_command_line(_PROGRAM, arguments)


_PROGRAM: Final = Program(
    name="railside-extender",
    description="Tells a kube-scheduler which nodes have HCAs beside GPUs as a pod needs them.",
    settings=EXTENDER_SETTINGS,
    logs=lambda settings: (settings.log_level, settings.log_format),
    make=Extender,
    foreseen=AddressError,
)
