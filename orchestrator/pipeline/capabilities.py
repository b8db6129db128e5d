"""Capabilities of the stages: asks them, caches the answers, refuses options they lack."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import grpc

from mesh.correlation import call_metadata
from mesh.errors import UnavailableError, UnsupportedError
from mesh.languages import primary, tag_of
from mesh.reasons import Reason
from orchestrator.pipeline.request import AUTO
from orchestrator.pipeline.stages import ASK_SECONDS, NORMALIZER, TRANSCRIBER, Stages, list_models
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

CACHE_SECONDS = 30.0
"""A stage that is restarted with more installed is believed after this."""

ENGLISH = "en"
AnswerT = TypeVar("AnswerT")


class Capabilities:
    """Refuses options no stage can honour before a job is accepted, not half-way through it."""

    def __init__(self, stages: Stages) -> None:
        self._normalizer = _Cached(partial(_ask_normalizer, stages))
        self._transcriber = _Cached(partial(list_models, stages))

    async def check(self, options: job_pb2.JobOptions) -> None:
        """Raises if the stage responsible cannot honour an option."""
        await self._check_options(options)
        if options.language_out:
            await self._check_translation(options)

    async def all(self) -> pb.GetAbilitiesResponse:
        """Everything the stages can do; stages that do not answer are listed as silent."""
        found = pb.GetAbilitiesResponse()
        normalizer, transcriber = await asyncio.gather(
            self._normalizer.get(), self._transcriber.get(), return_exceptions=True
        )
        if not isinstance(normalizer, BaseException):
            found.options.extend(normalizer.capabilities)
        if not isinstance(transcriber, BaseException):
            found.models.extend(transcriber.models)
            found.translations.extend(transcriber.translations)
        for stage, answer in ((NORMALIZER, normalizer), (TRANSCRIBER, transcriber)):
            if isinstance(answer, grpc.aio.AioRpcError):
                found.silent_stages.append(stage.name)
            elif isinstance(answer, BaseException):
                raise answer
        return found

    async def _check_options(self, options: job_pb2.JobOptions) -> None:
        wanted = [name for name in _CHECKED_OPTIONS if getattr(options, name)]
        if not wanted:
            return
        try:
            found = await self._normalizer.get()
        except grpc.aio.AioRpcError as error:
            raise UnavailableError(
                "the normalizer does not answer, so the options cannot be checked now",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error
        missing = {one.option: one.why_not for one in found.capabilities if not one.honoured}
        for name in wanted:
            if name in missing:
                raise UnsupportedError(
                    f"{name} cannot be honoured: {missing[name]}",
                    reason=Reason.OPTION_UNSUPPORTED,
                )

    async def _check_translation(self, options: job_pb2.JobOptions) -> None:
        source = AUTO if options.language == AUTO else tag_of(primary(options.language))
        target = tag_of(options.language_out)
        try:
            known = (await self._transcriber.get()).translations
        except grpc.aio.AioRpcError:
            return  # the job waits for the transcriber anyway, which then refuses it
        if not known and target == ENGLISH:
            return  # an earlier transcriber lists none, and may translate into English all the same
        targets = {tag for one in known for tag in one.target_languages}
        if target not in targets:
            only = f", only into {', '.join(sorted(targets))}" if targets else ""
            raise UnsupportedError(
                f"speech cannot be translated into {target!r} here{only}",
                reason=Reason.TRANSLATION_UNSUPPORTED,
            )
        readable = {
            tag for one in known if target in one.target_languages for tag in one.source_languages
        }
        if source not in {AUTO, target, *readable}:
            raise UnsupportedError(
                f"{source!r} cannot be translated into {target!r} here",
                reason=Reason.TRANSLATION_UNSUPPORTED,
            )


class _Cached(Generic[AnswerT]):
    """One answer, asked for again when it is older than CACHE_SECONDS."""

    def __init__(self, ask: Callable[[], Awaitable[AnswerT]]) -> None:
        self._ask = ask
        self._answer: tuple[float, AnswerT] | None = None

    async def get(self) -> AnswerT:
        now = asyncio.get_running_loop().time()
        if self._answer is None or now - self._answer[0] > CACHE_SECONDS:
            self._answer = now, await self._ask()
        return self._answer[1]


async def _ask_normalizer(stages: Stages) -> normalizer_pb.GetCapabilitiesResponse:
    return await stages.normalizer.GetCapabilities(
        normalizer_pb.GetCapabilitiesRequest(), timeout=ASK_SECONDS, metadata=call_metadata()
    )


_CHECKED_OPTIONS = ("isolate_vocals",)
"""Options that need software not every normalizer has installed."""
