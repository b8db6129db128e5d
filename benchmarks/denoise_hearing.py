"""What the real transcriber makes of a sound."""

import asyncio

from benchmarks.denoise_treatments import frames, sound_bytes
from benchmarks.mixing import Wave
from transcriber.__main__ import new_engine
from transcriber.engine import Finished, Request, Segment, Started
from transcriber.settings import Settings
from transcriber.speech.streaming import StreamingEngine


class Model:
    """The real transcriber's engine; what it has heard before it remembers."""

    def __init__(self, name: str, beam_size: int) -> None:
        self._loop = asyncio.Runner()
        self._engine = self._loop.run(_loaded(Settings(model=name, beam_size=beam_size)))
        self._heard: dict[tuple[int, str], tuple[str, str]] = {}
        self.name = ""

    def language(self, sound: Wave) -> str:
        """As BCP-47 names it."""
        return self._hear(sound, "")[1]

    def hear(self, sound: Wave, language: str) -> str:
        """Everything said."""
        return self._hear(sound, language)[0]

    def close(self) -> None:
        """Ends its processes."""
        self._engine.close()
        self._loop.close()

    def _hear(self, sound: Wave, language: str) -> tuple[str, str]:
        key = hash(sound.tobytes()), language
        if key not in self._heard:
            self._heard[key] = self._loop.run(self._listen(sound, language))
        return self._heard[key]

    async def _listen(self, sound: Wave, language: str) -> tuple[str, str]:
        texts: list[str] = []
        samples = frames(sound_bytes(sound))
        async for event in self._engine.transcribe(samples, Request(language=language)):
            match event:
                case Started():
                    self.name = event.model
                case Segment():
                    texts.append(event.text)
                case Finished():
                    language = event.language
        return " ".join(texts), language


async def _loaded(settings: Settings) -> StreamingEngine:
    engine = new_engine(settings)
    await engine.get_ready()
    return engine
