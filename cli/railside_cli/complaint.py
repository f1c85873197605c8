"""Says in one sentence on stderr why a command cannot do its work. It must not decide how the command ends."""

import sys


def complain(sentence: str) -> None:
    """Print ``sentence`` as what ``railside`` has to say."""
    print(f"railside: {sentence}", file=sys.stderr)


def unreadable(error: OSError) -> str:
    """What could not be read, and what the kernel says of it, without its number."""
    what = error.strerror or type(error).__name__
    return f"{error.filename} cannot be read: {what}" if error.filename else what
