"""What goes wrong when text of others is decoded. It must not decode anything."""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, RecursionError)
"""Not what was expected, or nested so deeply that nobody means it: the same to whoever reads it."""
