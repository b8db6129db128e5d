"""What the stages can honour on their machines, asked before a job is accepted."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import grpc

from mesh.correlation import call_metadata
from mesh.errors import UnavailableError, UnsupportedError
from mesh.languages import tag_of
from mesh.reasons import Reason
from orchestrator.stages import Stages
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

ASK_SECONDS = 3.0
KEPT_SECONDS = 30.0
"""A stage that is restarted with more installed is believed after this."""

AUTO = "auto"
ENGLISH = "en"
AnswerT = TypeVar("AnswerT")


class Abilities:
    """Refuses what would only be found out half-way."""

    def __init__(self, stages: Stages) -> None:
        self._normalizer = _Kept(partial(_ask_normalizer, stages))
        self._transcriber = _Kept(partial(_ask_transcriber, stages))

    async def check(self, options: job_pb2.JobOptions) -> None:
        """Raises if the machine that would have to cannot honour an option."""
        await self._check_options(options)
        if options.language_out:
            await self._check_translation(options)

    async def all(self) -> pb.GetAbilitiesResponse:
        """Everything the stages say; who does not answer now is named."""
        found = pb.GetAbilitiesResponse()
        try:
            found.options.extend((await self._normalizer.get()).capabilities)
        except grpc.aio.AioRpcError:
            found.silent_stages.append("normalizer")
        try:
            heard = await self._transcriber.get()
            found.models.extend(heard.models)
            found.translations.extend(heard.translations)
        except grpc.aio.AioRpcError:
            found.silent_stages.append("transcriber")
        return found

    async def _check_options(self, options: job_pb2.JobOptions) -> None:
        wanted = [name for name in _UNCERTAIN if getattr(options, name)]
        if not wanted:
            return
        try:
            found = await self._normalizer.get()
        except grpc.aio.AioRpcError as error:
            raise UnavailableError(
                "whether the options can be honoured cannot be asked now",
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
        source, target = tag_of(options.language), tag_of(options.language_out)
        try:
            known = (await self._transcriber.get()).translations
        except grpc.aio.AioRpcError:
            return  # the job waits for the transcriber anyway, which then refuses it itself
        if not known and target == ENGLISH:
            return  # a transcriber of an earlier version lists none, and may do this all the same
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


class _Kept(Generic[AnswerT]):
    """An answer that is good for a while."""

    def __init__(self, ask: Callable[[], Awaitable[AnswerT]]) -> None:
        self._ask = ask
        self._answer: tuple[float, AnswerT] | None = None

    async def get(self) -> AnswerT:
        now = asyncio.get_running_loop().time()
        if self._answer is None or now - self._answer[0] > KEPT_SECONDS:
            self._answer = now, await self._ask()
        return self._answer[1]


async def _ask_normalizer(stages: Stages) -> normalizer_pb.GetCapabilitiesResponse:
    return await stages.normalizer.GetCapabilities(
        normalizer_pb.GetCapabilitiesRequest(), timeout=ASK_SECONDS, metadata=call_metadata()
    )


async def _ask_transcriber(stages: Stages) -> transcriber_pb.ListModelsResponse:
    return await stages.transcriber.ListModels(
        transcriber_pb.ListModelsRequest(), timeout=ASK_SECONDS, metadata=call_metadata()
    )


_UNCERTAIN = ("isolate_vocals",)
"""Options that need more than every normalizer has."""
