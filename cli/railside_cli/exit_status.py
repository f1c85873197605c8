"""What each exit status of ``railside`` means. It must not decide which one a command ends with."""

from typing import Final

FINE: Final = 0
FINDING: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
UNWRITTEN: Final = 74
"""What was found could not be printed: EX_IOERR of sysexits.h."""
INTERRUPTED: Final = 130
"""As a shell tells of a program that ctrl-C ended."""
SIGNALLED: Final = 128
"""The same for any other signal, whose number is added."""
