"""Presenters: status of a job, and progress of a stage."""

import pytest

from gateway.presenters import jobs as present
from ytcaption.v1 import job_pb2, media_pb2

DOWNLOAD, NORMALIZATION, TRANSCRIPTION = (
    job_pb2.STAGE_DOWNLOAD,
    job_pb2.STAGE_NORMALIZATION,
    job_pb2.STAGE_TRANSCRIPTION,
)
PENDING, RUNNING = job_pb2.STAGE_STATE_PENDING, job_pb2.STAGE_STATE_RUNNING
COMPLETED, SKIPPED = job_pb2.STAGE_STATE_COMPLETED, job_pb2.STAGE_STATE_SKIPPED


@pytest.mark.parametrize(
    ("state", "stages", "status"),
    [
        (job_pb2.JOB_STATE_QUEUED, {}, "queued"),
        (job_pb2.JOB_STATE_RUNNING, {}, "queued"),
        (job_pb2.JOB_STATE_RUNNING, {DOWNLOAD: RUNNING}, "downloading"),
        (job_pb2.JOB_STATE_RUNNING, {DOWNLOAD: COMPLETED, NORMALIZATION: RUNNING}, "normalizing"),
        (job_pb2.JOB_STATE_RUNNING, {DOWNLOAD: RUNNING, TRANSCRIPTION: RUNNING}, "transcribing"),
        (job_pb2.JOB_STATE_RUNNING, {DOWNLOAD: RUNNING, TRANSCRIPTION: SKIPPED}, "downloading"),
        (job_pb2.JOB_STATE_QUEUED, {DOWNLOAD: COMPLETED}, "queued"),
        (job_pb2.JOB_STATE_SUCCEEDED, {}, "completed"),
        (job_pb2.JOB_STATE_FAILED, {DOWNLOAD: RUNNING}, "failed"),
        (job_pb2.JOB_STATE_CANCELLED, {}, "cancelled"),
    ],
)
def test_the_status_of_a_running_job_is_that_of_the_last_stage_that_has_started(
    state: "job_pb2.JobState.ValueType",
    stages: "dict[job_pb2.Stage.ValueType, job_pb2.StageState.ValueType]",
    status: str,
) -> None:
    found = [
        job_pb2.StageStatus(stage=stage, state=stages.get(stage, PENDING))
        for stage in (DOWNLOAD, NORMALIZATION, TRANSCRIPTION)
    ]

    assert present.job_status(state, found) == status


def test_a_stage_reports_amounts_in_its_own_unit() -> None:
    transfer = media_pb2.ByteProgress(done_bytes=50, total_bytes=200, bytes_per_second=25)
    transfer.remaining.FromSeconds(6)
    download = job_pb2.StageStatus(
        stage=DOWNLOAD, state=RUNNING, progress=media_pb2.Progress(bytes=transfer)
    )
    transcribed = media_pb2.MediaProgress()
    transcribed.done.FromMilliseconds(1500)
    transcription = job_pb2.StageStatus(
        stage=TRANSCRIPTION, state=RUNNING, progress=media_pb2.Progress(media=transcribed)
    )

    first, second = present.stage("id", download), present.stage("id", transcription)

    assert (first.done, first.total, first.unit, first.progress) == (50, 200, "bytes", 25.0)
    assert (first.bytes_per_second, first.eta_seconds) == (25.0, 6.0)
    assert (second.done, second.total, second.unit, second.progress) == (1.5, None, "seconds", 0)


def test_a_job_has_its_warnings_and_a_segment_its_doubt() -> None:
    job = job_pb2.Job(job_id="id")
    job.warnings.add(reason="LANGUAGE_UNCERTAIN", message="It may be Galician.")

    shown = present.detail(job).model_dump()["warnings"]
    doubtful, certain = (
        present.segment(media_pb2.Segment(text="a", uncertain=uncertain)).uncertain
        for uncertain in (True, False)
    )

    assert shown == [{"reason": "LANGUAGE_UNCERTAIN", "message": "It may be Galician."}]
    assert (doubtful, certain) == (True, False)
