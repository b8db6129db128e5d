"""A model in a process of its own, so that even the middle of a window can be broken off."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from structlog import get_logger

from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from transcriber.child import (
    Decode,
    Detect,
    Facts,
    TranslatorFacts,
    decoder_facts,
    translator_facts,
)
from transcriber.decoder import Decoder, How, Phrase
from transcriber.nursery import POLL_SECONDS, AbandonedError, Child, LostError
from transcriber.translating import Translate, Translator
from transcriber.vad import Audio

log = get_logger(__name__)

ResultT = TypeVar("ResultT")

TRIES = 2
"""A window that was under way when the child died is tried once more; then it may be the cause."""


class Killable:
    """Gives each order to its child; one that is killed or dies by itself is replaced at once."""

    def __init__(
        self, load: Callable[[], Any], describe: Callable[[Any], Any], idle_seconds: float
    ) -> None:
        self._load = load
        self._describe = describe
        self._idle_seconds = idle_seconds
        """After so long without an order the model is freed until the next; 0: never."""
        self._resting = threading.Timer(0, self._rest)
        self._is_asked = False
        self._child: Child | None = None
        self._closed = False
        self._lock = threading.Lock()
        """Held by whoever starts or kills a child: `close` comes from another thread."""

    @property
    def is_loaded(self) -> bool:
        """Whether there is a child, and it has told that it has a model."""
        child = self._child
        return child is not None and child.is_loaded

    def wake(self) -> None:
        """Returns when it is."""
        self._ask(lambda child: child.facts(_nobody_left))

    def close(self) -> None:
        """Ends the child, whatever it is doing; it is of no use afterwards."""
        with self._lock:
            self._closed = True
            self._resting.cancel()
            self._kill()

    def _ask(self, question: Callable[[Child], ResultT]) -> ResultT:
        with self._lock:
            self._is_asked = True
            self._resting.cancel()
        try:
            return self._ask_twice(question)
        finally:
            self._is_asked = False
            self._rest_later()

    def _rest_later(self) -> None:
        if self._idle_seconds and not self._closed:
            self._resting = threading.Timer(self._idle_seconds, self._rest)
            self._resting.daemon = True
            self._resting.start()

    def _rest(self) -> None:
        with self._lock:
            if not self._is_asked and self._child is not None:
                log.info("nobody needs the model, freeing it", pid=self._child.pid)
                self._kill()

    def _ask_twice(self, question: Callable[[Child], ResultT]) -> ResultT:
        for _ in range(TRIES):
            child = self._living()
            try:
                return question(child)
            except AbandonedError:
                if child.is_busy:  # one that still loads is as good for whoever comes next
                    log.info("broke off an order", pid=child.pid)
                    self._replace()
                raise
            except LostError:
                log.warning("lost a model", pid=child.pid)
                self._replace()
            except MeshError:
                if not child.is_loaded:
                    self._drop()
                raise
        raise UnavailableError(
            f"the model died {TRIES} times over the same order", reason=Reason.STAGE_UNAVAILABLE
        )

    def _living(self) -> Child:
        with self._lock:
            if self._closed:
                raise UnavailableError("the model is closed", reason=Reason.STAGE_UNAVAILABLE)
            if self._child is None:
                self._child = Child(self._load, self._describe)
            return self._child

    def _replace(self) -> None:
        with self._lock:
            self._kill()
            if not self._closed:
                self._child = Child(self._load, self._describe)

    def _drop(self) -> None:
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class KillableDecoder(Killable):
    """A speech model; asked by one thread at a time."""

    at_once = 1

    def __init__(self, load: Callable[[], Decoder], idle_seconds: float = 0) -> None:
        super().__init__(load, decoder_facts, idle_seconds)
        facts: Facts = self._ask(lambda child: child.facts(_nobody_left))
        self.model = facts.model
        self.device = facts.device
        self.compute_type = facts.compute_type
        self.languages = facts.languages
        self.translates = facts.translates

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> tuple[str, float]:
        """The code of the language spoken, and how sure that is."""
        found: tuple[str, float] = self._ask(lambda child: child.do(Detect(audio), abandoned))
        return found

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        order = Decode(audio, language, how)
        found: list[Phrase] = self._ask(lambda child: child.do(order, abandoned))
        return found


class KillableTranslator(Killable):
    """A translation model; threads that ask it take turns."""

    def __init__(self, load: Callable[[], Translator], idle_seconds: float = 0) -> None:
        super().__init__(load, translator_facts, idle_seconds)
        self._turn = threading.Lock()
        facts: TranslatorFacts = self._ask(lambda child: child.facts(_nobody_left))
        self.model = facts.model
        self.sources = facts.sources
        self.targets = facts.targets

    def wake(self) -> None:
        """Returns when it is loaded."""
        with self._turn:
            super().wake()

    def translate(self, order: Translate, abandoned: Callable[[], bool]) -> list[str]:
        """One text for each."""
        while not self._turn.acquire(timeout=POLL_SECONDS):
            if abandoned():
                raise AbandonedError
        try:
            found: list[str] = self._ask(lambda child: child.do(order, abandoned))
        finally:
            self._turn.release()
        return found


def _nobody_left() -> bool:
    """Whoever waits for a load waits for as long as it takes."""
    return False
