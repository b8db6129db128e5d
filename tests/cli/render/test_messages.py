"""Contract messages in words."""

import json
from typing import Any

import pytest

from cli.render.collection_updates import member_json, member_line
from cli.render.messages import job_title
from mesh.messages import enum_word
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb

NEWER = 99
"""A value that this version of the contract does not have."""


@pytest.mark.parametrize(
    ("enum", "value", "word"),
    [
        (job_pb.JobState, job_pb.JOB_STATE_SUCCEEDED, "succeeded"),
        (job_pb.Stage, job_pb.STAGE_DOWNLOAD, "download"),
        (job_pb.LetterKind, job_pb.LETTER_KIND_EVENT, "event"),
        (pb.MemberState, pb.MEMBER_STATE_TIMED_OUT, "timed_out"),
        (admin_pb.DeliveryState, admin_pb.DELIVERY_STATE_PENDING, "pending"),
        (job_pb.JobState, NEWER, "99"),
    ],
)
def test_enum_values_are_words_without_their_prefix(enum: Any, value: int, word: str) -> None:
    assert enum_word(enum, value) == word


def test_a_member_state_of_a_newer_server_is_shown_as_its_number() -> None:
    member = pb.Member(number=7, title="A talk")
    member.MergeFromString(bytes([pb.Member.STATE_FIELD_NUMBER << 3, NEWER]))

    assert member_line(member).split() == ["7", "99", "A", "talk"]
    assert json.loads(member_json(member))["state"] == "99"


def test_a_job_without_a_title_is_named_by_its_source() -> None:
    job = job_pb.Job()
    job.source.upload.file_name = "talk.ogg"

    assert job_title(job) == "talk.ogg"
