"""The last words: whether all came as a user would expect, in sentences. It must not look at anything itself."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from railside_cli.demo.witness import Verdict


def verdict(seen: Sequence[Verdict], lucky: Fraction, broke: str = "") -> tuple[bool, list[str]]:
    """Whether it was sound, and what to say of it.

    ``lucky`` is how many pairs chance would have made, ``broke`` what ended the story too early.
    """
    faults = [*(fault for one in seen for fault in one.faults), *([broke] if broke else [])]
    if faults:
        return False, [*(f"Not as it should be: {fault}." for fault in faults), "Please report this."]
    return True, list(_praise(seen, lucky))


def _praise(seen: Sequence[Verdict], lucky: Fraction) -> Iterable[str]:
    starts, pairs, nearest, moved = (
        sum(each) for each in zip(*((one.starts, one.pairs, one.nearest, one.moved) for one in seen), strict=True)
    )
    yield f"{starts} containers started, and no HCA was ever in more hands than its share allows."
    yield "No pod lost an HCA that was sound, and nobody new got one that was not."
    yield (
        f"Every GPU got the nearest HCA that could be had: {nearest} of {pairs} the one on their own switch, where"
        f" chance would have made it {float(lucky):.3g}."
    )
    if moved:
        yield f"{moved} of them had to leave an HCA that had died, and got the nearest that was left."
