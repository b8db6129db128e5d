"""The executor `legendas` makes caption files of a member."""

from google.protobuf.duration_pb2 import Duration

from orchestrator.tasks.builtin.captions import CaptionFiles
from tests.orchestrator.tasks.builtin.made import made_by
from ytcaption.v1 import collection_pb2, job_pb2, media_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb

MEMBER = pb.ExecuteRequest(
    member=collection_pb2.Member(
        number=1,
        job_id="job-1",
        title="Uma palestra / dois",
        language="pt",
        duration=Duration(seconds=4),
    )
)


def segments(*texts: str, translation: str = "", first: int = 0) -> pb.ExecuteRequest:
    return pb.ExecuteRequest(
        segments=pb.MemberSegments(
            member=1,
            segments=[
                media_pb2.Segment(
                    index=index,
                    start_offset=Duration(seconds=2 * index),
                    end_offset=Duration(seconds=2 * index + 2),
                    text=text,
                    translation=translation,
                    language="pt",
                )
                for index, text in enumerate(texts, start=first)
            ],
        )
    )


async def test_the_usual_format_is_made_of_segments_that_come_in_parts() -> None:
    made = await made_by(CaptionFiles(), [MEMBER, segments("Olá."), segments("Tchau.", first=1)])

    [(name, content)] = made.files.items()
    assert name == "Uma palestra _ dois.srt"
    assert made.media_types[name] == "application/x-subrip"
    text = content.decode()
    assert text.startswith("1\n00:00:00,000 --> ")
    assert text.index("Olá.") < text.index("Tchau.")
    assert made.result == {
        "job_id": "job-1",
        "idioma": "pt",
        "segmentos": 2,
        "arquivos": [name],
    }


async def test_every_format_that_is_named_is_made() -> None:
    made = await made_by(CaptionFiles(), [MEMBER, segments("Olá.")], {"formatos": ["vtt", "txt"]})

    assert [name.rpartition(".")[2] for name in made.files] == ["vtt", "txt"]
    assert made.files["Uma palestra _ dois.vtt"].startswith(b"WEBVTT")
    assert made.files["Uma palestra _ dois.txt"] == "Olá.\n".encode()


async def test_a_translation_is_a_file_besides() -> None:
    options = job_pb2.JobOptions(language_out="en")
    made = await made_by(
        CaptionFiles(),
        [MEMBER, segments("Olá.", translation="Hello.")],
        {"formatos": ["txt"]},
        collection_pb2.Collection(options=options),
    )

    assert made.files == {
        "Uma palestra _ dois.txt": "Olá.\n".encode(),
        "Uma palestra _ dois.en.txt": b"Hello.\n",
    }


async def test_a_document_has_no_captions() -> None:
    document = pb.ExecuteRequest(document=task_pb2.Document(number=1, text="texto"))

    made = await made_by(CaptionFiles(), [document])

    assert made.files == {}
    assert made.result["segmentos"] == 0
