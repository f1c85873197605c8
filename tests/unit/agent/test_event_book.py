from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from railside_agent.event_book import (
    BURST,
    MOST_REFUSALS,
    MOST_SERIES,
    REFILL_SECONDS,
    SERIES_SECONDS,
    EventBook,
    Involved,
    Make,
    Raise,
    Saying,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
NODE = Involved(kind="Node", name="n1", uid="u-n1")


def _saying(message: str = "mlx5_1 has no active port", about: Involved = NODE) -> Saying:
    return Saying(about=about, reason="NoActivePort", message=message)


@pytest.fixture
def book() -> EventBook:
    return EventBook("n1")


def _made(book: EventBook, at: float = 0.0) -> Make:
    step = book.due(at)
    assert isinstance(step, Make)
    book.told(step, at)
    return step


def test_an_event_has_the_form_that_kubernetes_takes(book: EventBook) -> None:
    """The first time a sentence is said, it is a core/v1 Event about its object, by the agent of the node."""
    book.say(_saying(), NOON)
    step = _made(book)
    body = msgspec.to_builtins(step.body)
    name = body["metadata"].pop("name")
    assert name.startswith("n1.")
    assert (step.namespace, body) == (
        "default",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "n1", "uid": "u-n1", "namespace": "", "apiVersion": "v1"},
            "reason": "NoActivePort",
            "message": "mlx5_1 has no active port",
            "type": "Warning",
            "count": 1,
            "firstTimestamp": "2026-11-30T12:00:00Z",
            "lastTimestamp": "2026-11-30T12:00:00Z",
            "source": {"component": "railside-agent", "host": "n1"},
            "reportingComponent": "railside-agent",
            "reportingInstance": "n1",
        },
    )


def test_a_pods_event_stands_in_its_namespace(book: EventBook) -> None:
    """An Event about a pod is where the pod is."""
    book.say(_saying(about=Involved(kind="Pod", name="train", uid="u", namespace="team")), NOON)
    assert _made(book).namespace == "team"


def test_the_same_again_is_counted_and_told_once_a_minute(book: EventBook) -> None:
    """What is said again raises the count of its Event, at most once a minute however often it is said."""
    book.say(_saying(), NOON)
    made = _made(book)
    for second in range(1, 11):
        book.say(_saying(), NOON + timedelta(seconds=second))
    assert book.due(SERIES_SECONDS - 0.1) is None
    assert book.wait_seconds(10) == SERIES_SECONDS - 10
    step = book.due(SERIES_SECONDS)
    assert isinstance(step, Raise)
    assert (step.name, step.body.count) == (made.body.metadata.name, 11)
    assert msgspec.to_builtins(step.body) == {"count": 11, "lastTimestamp": "2026-11-30T12:00:10Z"}
    book.told(step, SERIES_SECONDS)
    assert book.due(10 * SERIES_SECONDS) is None
    assert book.wait_seconds(10 * SERIES_SECONDS) is None


def test_what_is_said_while_it_is_told_is_not_lost(book: EventBook) -> None:
    """A sentence that is said again while its Event is on its way counts the next time."""
    book.say(_saying(), NOON)
    step = book.due(0)
    book.say(_saying(), NOON)
    assert isinstance(step, Make)
    book.told(step, 0)
    again = book.due(SERIES_SECONDS)
    assert isinstance(again, Raise)
    assert again.body.count == 2


def test_another_object_or_sentence_is_another_event(book: EventBook) -> None:
    """Events are one for each object, reason and sentence, under different names."""
    for saying in (
        _saying(),
        _saying("mlx5_2 has no active port"),
        _saying(about=Involved(kind="Pod", name="n1", uid="p")),
    ):
        book.say(saying, NOON)
    assert len({_made(book).body.metadata.name for _ in range(3)}) == 3


def test_all_together_are_told_at_a_bounded_rate(book: EventBook) -> None:
    """A burst is told at once, and what is more waits its turn."""
    for number in range(int(BURST) + 2):
        book.say(_saying(f"sentence {number}"), NOON)
    for _ in range(int(BURST)):
        _made(book)
    assert book.due(0) is None
    assert book.wait_seconds(0) == pytest.approx(REFILL_SECONDS)
    _made(book, REFILL_SECONDS)
    assert book.due(REFILL_SECONDS) is None


def test_rest_refills_no_more_than_a_burst(book: EventBook) -> None:
    """A quiet day does not allow a flood."""
    for number in range(int(BURST) + 1):
        book.say(_saying(f"sentence {number}"), NOON)
    for _ in range(int(BURST)):
        _made(book, 86400.0)
    assert book.due(86400.0) is None


def test_memory_is_bounded_and_the_oldest_is_dropped(book: EventBook) -> None:
    """With an API server away for long, the latest sentences stay and the others are counted."""
    book.say(_saying("said again"), NOON)
    for number in range(MOST_SERIES + 9):
        book.say(_saying(f"sentence {number}"), NOON)
        book.say(_saying("said again"), NOON)
    step = book.due(0)
    assert step is not None
    assert (step.saying.message, book.dropped) == ("sentence 10", 10)


def test_what_was_told_is_not_counted_as_dropped(book: EventBook) -> None:
    """A sentence that makes room after it was told is lost to nobody."""
    book.say(_saying(), NOON)
    _made(book)
    for number in range(MOST_SERIES):
        book.say(_saying(f"sentence {number}"), NOON)
    assert book.dropped == 0


def test_an_event_that_the_server_forgot_is_made_anew(book: EventBook) -> None:
    """Events live for an hour: where one to be counted up is gone, the sentence becomes a new one."""
    book.say(_saying(), NOON)
    _made(book)
    book.say(_saying(), NOON)
    step = book.due(SERIES_SECONDS)
    assert isinstance(step, Raise)
    book.forgotten(step)
    assert _made(book, SERIES_SECONDS).body.count == 2


def test_a_refused_sentence_holds_up_no_other(book: EventBook) -> None:
    """A refusal costs a turn, the next sentence is told at once, and the refused one again after a minute."""
    book.say(_saying(), NOON)
    book.say(_saying("another"), NOON)
    step = book.due(0)
    assert step is not None
    book.refused(step, 0)
    assert (_made(book).saying.message, book.due(SERIES_SECONDS - 1)) == ("another", None)
    assert _made(book, SERIES_SECONDS).saying == _saying()
    assert book.dropped == 0


def test_what_the_server_will_never_take_is_dropped(book: EventBook) -> None:
    """A sentence that is refused each time is given up, and may be said anew later."""
    book.say(_saying(), NOON)
    for minute in range(MOST_REFUSALS):
        step = book.due(minute * SERIES_SECONDS)
        assert step is not None
        book.refused(step, minute * SERIES_SECONDS)
    assert (book.due(3600), book.dropped) == (None, 1)
    book.say(_saying(), NOON)
    assert _made(book, 3600).body.count == 1


def test_only_refusals_in_a_row_count(book: EventBook) -> None:
    """A sentence that was taken between refusals is not given up."""
    at = 0.0
    for _ in range(MOST_REFUSALS):
        for is_taken in (False, True):
            book.say(_saying(), NOON)
            step = book.due(at)
            assert step is not None
            if is_taken:
                book.told(step, at)
            else:
                book.refused(step, at)
            at += SERIES_SECONDS
    assert book.dropped == 0


def test_refusals_do_not_spin(book: EventBook) -> None:
    """Sentences that are refused are limited like those that are taken."""
    for number in range(int(BURST) + 1):
        book.say(_saying(f"sentence {number}"), NOON)
    for _ in range(int(BURST)):
        step = book.due(0)
        assert step is not None
        book.refused(step, 0)
    assert book.due(0) is None


def test_names_and_messages_fit(book: EventBook) -> None:
    """A name stays a name that Kubernetes takes, and a long message is cut at its limit, between letters."""
    pod = Involved(kind="Pod", name="x" * 199 + "." + "y" * 50, uid="u", namespace="team")
    book.say(_saying("ä" * 2000, pod), NOON)
    body = _made(book).body
    assert body.metadata.name.startswith("x" * 199 + ".")
    assert ".." not in body.metadata.name
    assert (len(body.metadata.name) <= 253, len(body.message)) == (True, 512)
