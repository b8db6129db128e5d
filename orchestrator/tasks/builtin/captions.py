"""The executor `legendas`: caption files of a member."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace

from google.protobuf.json_format import MessageToDict, ParseDict

from captions.formats import DEFAULT, FORMATS
from captions.model import Transcript
from mesh.languages import tag_of
from orchestrator.jobs.caption_files import stem_of
from orchestrator.jobs.captions import (
    from_wire,
    in_translation,
    is_translated,
    rules_in_force,
    translated_into,
)
from orchestrator.tasks.builtin.files import begin_of, frames_of, result_of
from ytcaption.v1 import collection_pb2, media_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb

FORMAT_NAMES = "formatos"
DESCRIPTION = ParseDict(
    {
        "summary": "Caption files of each recording.",
        "parameters_schema": {
            "type": "object",
            "properties": {
                FORMAT_NAMES: {
                    "type": "array",
                    "items": {"enum": list(FORMATS)},
                    "minItems": 1,
                    "uniqueItems": True,
                    "default": [DEFAULT],
                }
            },
            "additionalProperties": False,
        },
        "preferred_scope": "EXECUTOR_SCOPE_ITEM",
        "needs_segments": True,
    },
    task_pb2.TypeDescription(),
)


class CaptionFiles:
    """Writes captions of one member; fulfils `Executor`."""

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """The one kind."""
        return {"legendas": DESCRIPTION}

    async def execute(
        self, start: pb.ExecuteStart, items: AsyncIterator[pb.ExecuteRequest]
    ) -> AsyncGenerator[pb.ExecuteResponse, None]:
        """One file for each format, those of a translation besides; a document has none."""
        member, segments = collection_pb2.Member(), list[media_pb2.Segment]()
        async for item in items:
            if item.HasField("member"):
                member = item.member
            segments.extend(item.segments.segments)
        tracks = _tracks(member, segments, start.collection) if segments else []
        names: list[str] = []
        stem = stem_of(member.title, member.job_id)
        for name in MessageToDict(start.parameters).get(FORMAT_NAMES) or [DEFAULT]:
            format_ = FORMATS[name]
            for track, suffix in tracks:
                rules = rules_in_force(track.language, start.collection.options.cue_rules)
                names.append(f"{stem}{suffix}.{format_.suffix}")
                # In a thread: hours of speech take a second, and other calls must not wait for it.
                content = await asyncio.to_thread(format_.render, track, rules)
                yield begin_of(names[-1], format_.media_type)
                for frame in frames_of(content.encode()):
                    yield frame
        yield result_of(
            {
                "job_id": member.job_id,
                "idioma": member.language,
                "segmentos": len(segments),
                "arquivos": names,
            }
        )


def _tracks(
    member: collection_pb2.Member,
    segments: list[media_pb2.Segment],
    collection: collection_pb2.Collection,
) -> list[tuple[Transcript, str]]:
    """The captions as spoken, and their translation, each with what its files have in the name."""
    transcript = media_pb2.Transcript(
        language=tag_of(member.language), duration=member.duration, segments=segments
    )
    found = from_wire(transcript)
    found = replace(found, language_out=translated_into(found, collection.options.language_out))
    if not is_translated(found):
        return [(found, "")]
    other = in_translation(found)
    return [(found, ""), (other, f".{other.language}")]
