from railside_runtime.pauses import Pauses, jittered


def _in_step(first_seconds: float, longest_seconds: float) -> Pauses:
    return Pauses(first_seconds, longest_seconds, jitter=lambda seconds: seconds)


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    """Tries come ever more slowly, and from the beginning again after one that was no failure."""
    waits = _in_step(1.0, 5.0)
    assert [waits.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    waits.begin_anew()
    assert [waits.next() for _ in range(2)] == [1.0, 2.0]


def test_no_pause_is_longer_than_the_longest() -> None:
    """A first pause beyond the longest is cut."""
    assert _in_step(9.0, 2.0).next() == 2.0


def test_many_do_not_march_in_step() -> None:
    """Pauses differ, within half of what was asked for to either side."""
    waits = {Pauses(10.0, 10.0).next() for _ in range(100)}
    assert len(waits) > 1
    assert all(5.0 <= one <= 15.0 for one in waits | {jittered(10.0)})
