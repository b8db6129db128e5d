"""Somebody who notes which collections are asked for."""

import pytest

from tests.orchestrator.events.starting import Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
