"""Validation of job options."""

import pytest

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.jobs.dedup import dedup_key
from orchestrator.jobs.validation import resolve
from tests.support.client import Client, refusal
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2

TALK = job_pb2.Source(url="http://example.test/talk.mp3")


def test_candidates_of_detection_are_spelt_alike_and_each_is_there_once() -> None:
    asked = job_pb2.JobOptions(languages=["pt-BR", "EN", "pt", "es_419", "en-GB"])

    assert list(resolve(asked).languages) == ["pt", "en", "es"]


@pytest.mark.parametrize(
    ("tag", "kept"), [("zh-TW", "zh-Hant"), ("zh_hk", "zh-Hant"), ("zh-CN", "zh"), ("pt-BR", "pt")]
)
def test_a_language_keeps_of_its_tag_what_changes_the_text(tag: str, kept: str) -> None:
    assert resolve(job_pb2.JobOptions(language=tag)).language == kept
    assert list(resolve(job_pb2.JobOptions(languages=["en", tag])).languages) == ["en", kept]


def test_candidates_go_with_mixed_languages() -> None:
    asked = job_pb2.JobOptions(languages=["pt", "en"], mixed_languages=True)

    assert list(resolve(asked).languages) == ["pt", "en"]


def test_candidates_may_stand_beside_auto() -> None:
    asked = job_pb2.JobOptions(languages=["pt"], language="auto")

    assert (resolve(asked).language, list(resolve(asked).languages)) == ("auto", ["pt"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (job_pb2.JobOptions(languages=["pt", "p!"]), Reason.LANGUAGE_UNKNOWN),
        (job_pb2.JobOptions(languages=["pt", ""]), Reason.LANGUAGE_UNKNOWN),
        (job_pb2.JobOptions(languages=["auto"]), Reason.LANGUAGE_UNKNOWN),
        (job_pb2.JobOptions(languages=["pt", "en"], language="pt"), Reason.REQUEST_INVALID),
        (job_pb2.JobOptions(languages=["pt"] * 21), Reason.REQUEST_INVALID),
    ],
    ids=["malformed", "empty", "auto", "with a language", "too many"],
)
def test_candidates_that_cannot_be_honoured_are_refused(
    options: job_pb2.JobOptions, reason: Reason
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        resolve(options)
    assert caught.value.reason is reason


def test_jobs_with_other_candidates_are_not_identical() -> None:
    plain, two, respelt = (
        dedup_key(TALK, resolve(job_pb2.JobOptions(languages=languages)))
        for languages in ([], ["pt", "en"], ["pt-BR", "en", "pt"])
    )

    assert plain != two
    assert two == respelt


async def test_candidates_reach_the_transcriber(client: Client, script: Script) -> None:
    options = job_pb2.JobOptions(languages=["pt", "en"])
    await client.finished((await client.create(options=options)).job_id)

    assert (list(script.starts[0].languages), script.starts[0].language) == (["pt", "en"], "")


async def test_a_job_with_a_language_and_candidates_is_not_created(client: Client) -> None:
    options = job_pb2.JobOptions(languages=["pt", "en"], language="pt")

    assert await refusal(client.create(options=options)) == "REQUEST_INVALID"
