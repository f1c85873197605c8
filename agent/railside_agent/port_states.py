"""Asks every card for its ports, again and again, each in a thread of its own: one that hangs holds up no other.

It must not decide what an answer means, nor which cards there are: it is told whom to follow. No kernel message
tells of a port that goes down, so asking is the only way to see it. An answer that is no news stays in its thread,
as this goes on every second for as long as a node lives.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Final, Never

from structlog.typing import FilteringBoundLogger

from railside_agent.raw_machine import RawPortState
from railside_runtime.cell import Cell
from railside_runtime.worker import Worker

POLL_SECONDS: Final = 1.0

SILENT_SECONDS: Final = 1.0
"""How long a card may take to answer; firmware that resets takes much longer."""

Answer = tuple[RawPortState, ...] | None
"""What a card says of its ports; None while it is silent."""

PortAnswers = Mapping[str, Answer]
"""The latest answer of each device by name; nothing for one that has not answered yet, nor been silent."""


class PortStates:
    """The ports of all devices that are followed, as their cards last said."""

    def __init__(
        self,
        read: Callable[[str], tuple[RawPortState, ...]],
        log: FilteringBoundLogger,
        *,
        poll_seconds: float = POLL_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """Ask by ``read``, which is given a device's name, may hang, and runs in that device's thread."""
        self._read = read
        self._log = log
        self._poll_seconds = poll_seconds
        self._silent_seconds = silent_seconds
        self._cards: dict[str, _Card] = {}
        self.latest: Cell[PortAnswers] = Cell({})

    def follow(self, devices: Collection[str]) -> None:
        """Ask ``devices`` from the next turn on, and no others; what those have answered is forgotten."""
        for name in self._cards.keys() - set(devices):
            self._cards.pop(name).end()
        self.latest.set({name: answer for name, answer in self.latest.value.items() if name in self._cards})
        for name in set(devices) - self._cards.keys():
            self._cards[name] = _Card(name, self._read, self._take)

    def ask_now(self, device: str) -> None:
        """Ask ``device`` at once, and not only at its next turn; nothing where it is not followed."""
        card = self._cards.get(device)
        if card is not None and not card.owes:
            card.ask()
            asyncio.get_running_loop().call_later(self._silent_seconds, card.fall_silent, card.questions)

    async def ask_all(self) -> PortAnswers:
        """What all devices answer that are asked from now on; those that hang, known or not, are silent."""
        await asyncio.gather(*(card.answer_within(self._silent_seconds) for card in self._cards.values()))
        return self.latest.value

    async def run(self) -> Never:
        """Ask until cancelled."""
        try:
            while True:
                for name in self._cards:
                    self.ask_now(name)
                await asyncio.sleep(self._poll_seconds)
        finally:
            self.follow(())

    def _take(self, card: "_Card", answer: Answer, bug: Exception | None) -> None:
        if bug is not None:
            self._log.error("this is a bug: the ports could not be read", device=card.name, exc_info=bug)
        if self._cards.get(card.name) is card:
            self.latest.set({**self.latest.value, card.name: answer})


class _Card:
    """One device, its thread, and what it was asked and has answered."""

    def __init__(
        self,
        name: str,
        read: Callable[[str], tuple[RawPortState, ...]],
        take: "Callable[[_Card, Answer, Exception | None], None]",
    ) -> None:
        self.name = name
        self.questions = 0
        self._answers = 0
        """Counted by the card's thread alone, as the questions are by the loop alone."""
        self._read = read
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(f"ports-{name}")
        # Written on the loop alone; a thread that reads it too early hands over once more, or at its next turn.
        self._known: tuple[Answer] | None = None

    @property
    def owes(self) -> bool:
        """Whether it has still to answer something."""
        return self._answers < self.questions

    def ask(self) -> None:
        self.questions += 1
        self._worker.post(self._answer)

    async def answer_within(self, seconds: float) -> None:
        """Ask, and wait for the answer; a card that is known to hang is asked no second question."""
        if self.owes and self._known == (None,):
            return
        self.ask()
        try:
            # Behind the question, and behind what its answer has handed over.
            await self._worker.run(lambda: None, seconds)
        except TimeoutError:
            self._tell(None)

    def end(self) -> None:
        self._worker.end()

    def fall_silent(self, question: int) -> None:
        """Take silence for an answer if ``question`` has had none by now."""
        if self._answers < question:
            self._tell(None)

    def _answer(self) -> None:
        """Runs in the card's thread."""
        answer, bug = self._ask_firmware()
        news = self._known != (answer,)
        self._answers += 1
        if news:
            # A loop that has closed meanwhile waits for nothing any more.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._tell, answer, bug)

    def _ask_firmware(self) -> tuple[Answer, Exception | None]:
        """What we lack to ask with says nothing of the card; a bug of ours is silence."""
        try:
            return self._read(self.name), None
        except OSError:
            return (self._known[0] if self._known else None), None
        except Exception as error:  # noqa: BLE001 -- it is told on the loop; pods depend on this agent
            return None, error

    def _tell(self, answer: Answer, bug: Exception | None = None) -> None:
        self._known = (answer,)
        self._take(self, answer, bug)
