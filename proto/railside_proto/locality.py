"""The words by which a pod says how near its HCAs must be to its GPUs. It must not say what follows from them."""

from typing import Final, Literal, get_args

Locality = Literal["required-pcie", "required-numa", "preferred", "none"]
"""What the annotation may say."""

LOCALITIES: Final[tuple[str, ...]] = get_args(Locality)

REQUIRED_PCIE: Final = "required-pcie"
REQUIRED_NUMA: Final = "required-numa"
PREFERRED: Final = "preferred"
NO_LOCALITY: Final = "none"
