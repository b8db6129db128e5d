"""Models in processes of their own: can be killed during a call, and restart by themselves."""

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, TypeVar

from structlog import get_logger

from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from transcriber.decoder import (
    POLL_SECONDS,
    AbandonedError,
    Audio,
    DecodeOptions,
    Decoder,
    Phrase,
)
from transcriber.model.fork_server import ModelProcess, ProcessLostError
from transcriber.translation.translator import Translate, Translator

log = get_logger(__name__)

ResultT = TypeVar("ResultT")

MAX_ATTEMPTS = 3
"""A command whose process died is tried again, without others that may be the cause."""


class RestartableModel:
    """Sends commands to a model process; replaces it at once when it is killed or dies."""

    def __init__(
        self, load: Callable[[], Any], describe: Callable[[Any], Any], idle_seconds: float
    ) -> None:
        self._load = load
        self._describe = describe
        self._idle_seconds = idle_seconds
        """The model is freed after so long without a command, until the next; 0: never."""
        self._unload_timer = threading.Timer(0, self._unload_if_idle)
        self._calls = 0
        """Calls under way."""
        self._process: ModelProcess | None = None
        self._closed = False
        self._lock = threading.Lock()
        """Guards start and kill of the process, and the number of calls."""
        self._suspects = threading.Lock()
        """Held by the one command that is tried again after its process died."""

    @property
    def is_loaded(self) -> bool:
        """Whether there is a process and its model is loaded."""
        process = self._process
        return process is not None and process.is_loaded

    def ensure_loaded(self) -> None:
        """Loads the model unless it is loaded."""
        self._info()

    def close(self) -> None:
        """Kills the process, whatever it is doing; later calls fail."""
        with self._lock:
            self._closed = True
            self._unload_timer.cancel()
            self._kill()

    def _info(self) -> Any:
        """Properties of the model, as `describe` returned them; waits as long as it loads."""
        return self._request(lambda process: process.info(lambda: False))

    def _call(self, abandoned: Callable[[], bool], method: str, *arguments: Any) -> Any:
        """Calls a method of the model."""
        return self._request(lambda process: process.call(abandoned, method, *arguments))

    def _request(self, request: Callable[[ModelProcess], ResultT]) -> ResultT:
        with self._lock:
            self._calls += 1
            self._unload_timer.cancel()
        try:
            return self._call_with_retry(request)
        finally:
            with self._lock:
                self._calls -= 1
                self._kill_if_unwanted()
                self._schedule_unload()

    def _schedule_unload(self) -> None:
        if self._idle_seconds and not self._closed and not self._calls:
            self._unload_timer = threading.Timer(self._idle_seconds, self._unload_if_idle)
            self._unload_timer.daemon = True
            self._unload_timer.start()

    def _unload_if_idle(self) -> None:
        with self._lock:
            if not self._calls and self._process is not None:
                log.info("model is idle, freeing it", pid=self._process.pid)
                self._kill()

    def _call_with_retry(self, request: Callable[[ModelProcess], ResultT]) -> ResultT:
        for attempt in range(MAX_ATTEMPTS):
            with self._suspects if attempt else nullcontext():
                process = self._running_process()
                try:
                    return request(process)
                except ProcessLostError:
                    self._replace(process)
                except MeshError:
                    if not process.is_loaded:
                        self._drop(process)
                    raise
        raise UnavailableError(
            f"the model died {MAX_ATTEMPTS} times during the same command",
            reason=Reason.STAGE_UNAVAILABLE,
        )

    def _kill_if_unwanted(self) -> None:
        """Ends work that no caller waits for; the next call finds a process that loads already."""
        if self._process is not None and self._process.runs_only_unwanted:
            log.info("abandoned command, replacing its process", pid=self._process.pid)
            self._kill()
            self._start()

    def _running_process(self) -> ModelProcess:
        with self._lock:
            if self._closed:
                raise UnavailableError("the model is closed", reason=Reason.STAGE_UNAVAILABLE)
            return self._process or self._start()

    def _replace(self, lost: ModelProcess) -> None:
        with self._lock:
            if self._process is lost and not self._closed:  # only the first caller to notice
                log.warning("model process died, replacing it", pid=lost.pid)
                self._kill()
                self._start()

    def _start(self) -> ModelProcess:
        self._process = ModelProcess(self._load, self._describe)
        return self._process

    def _drop(self, failed: ModelProcess) -> None:
        with self._lock:
            if self._process is failed:
                self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


class RestartableDecoder(RestartableModel):
    """A speech model; called by any number of threads."""

    def __init__(self, load: Callable[[], Decoder], idle_seconds: float = 0) -> None:
        names = ("model", "device", "compute_type", "languages", "translates", "concurrency")
        super().__init__(load, attrgetter(*names), idle_seconds)
        info: tuple[str, str, str, frozenset[str], bool, int] = self._info()
        self.model, self.device, self.compute_type = info[:3]
        self.languages, self.translates, self.concurrency = info[3:]

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> Mapping[str, float]:
        """The probability of each language, by code."""
        found: dict[str, float] = self._call(abandoned, "detect", audio)
        return found

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        found: list[Phrase] = self._call(abandoned, "decode", audio, language, options)
        return found


class RestartableTranslator(RestartableModel):
    """A translation model; calls from several threads take turns."""

    def __init__(self, load: Callable[[], Translator], idle_seconds: float = 0) -> None:
        super().__init__(load, attrgetter("model", "sources", "targets"), idle_seconds)
        self._turn = threading.Lock()
        info: tuple[str, frozenset[str], frozenset[str]] = self._info()
        self.model, self.sources, self.targets = info

    def ensure_loaded(self) -> None:
        """Loads the model unless it is loaded."""
        with self._turn:
            super().ensure_loaded()

    def translate(self, command: Translate, abandoned: Callable[[], bool]) -> list[str]:
        """One translation for each text."""
        while not self._turn.acquire(timeout=POLL_SECONDS):
            if abandoned():
                raise AbandonedError
        try:
            found: list[str] = self._call(abandoned, "translate", command)
        finally:
            self._turn.release()
        return found
