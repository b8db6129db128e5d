"""The stage table is complete: everything about a stage derives from its row."""

from dataclasses import fields

import pytest

from orchestrator.pipeline.stages import (
    STAGES,
    Stage,
    Stages,
    open_stages,
    reset_stages,
    stage_status,
)
from orchestrator.settings import Settings
from ytcaption.v1 import job_pb2


def test_every_stage_of_the_contract_has_one_row() -> None:
    ids = [value for value in job_pb2.Stage.values() if value != job_pb2.STAGE_UNSPECIFIED]

    assert sorted(stage.id for stage in STAGES) == sorted(ids)
    assert {stage.name for stage in STAGES} < {field.name for field in fields(Stages)}


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_row_names_settings_of_its_own_stage(stage: Stage) -> None:
    stall = f"{job_pb2.Stage.Name(stage.id).removeprefix('STAGE_').lower()}_stall_seconds"
    settings = Settings.model_validate({stage.name: "replica:1", stall: 7})

    assert stage.addresses(settings) == "replica:1"
    assert stage.stall_seconds(settings) == 7


async def test_every_stage_has_a_stub_a_channel_and_a_circuit() -> None:
    async with open_stages(Settings()) as stages:
        assert all(getattr(stages, stage.name) is not None for stage in STAGES)
        assert set(stages.channels) == set(stages.circuits) == {stage.id for stage in STAGES}


def test_the_status_of_a_stage_that_a_record_lacks_is_added_as_pending() -> None:
    job = job_pb2.Job(attempt=2)
    reset_stages(job)
    del job.stages[-1]

    added = stage_status(job, job_pb2.STAGE_TRANSCRIPTION)

    assert (added.state, added.attempt) == (job_pb2.STAGE_STATE_PENDING, 2)
    assert [status.stage for status in job.stages] == [stage.id for stage in STAGES]
