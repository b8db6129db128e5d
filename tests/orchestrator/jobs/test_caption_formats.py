"""The registry of caption formats and the contract name the same formats."""

import subprocess
import sys

from captions.formats import DEFAULT, FORMATS
from mesh.messages import enum_names
from orchestrator.jobs.captions import format_for, format_infos
from ytcaption.v1 import job_pb2, media_pb2


def test_every_format_of_the_contract_has_one_entry_under_its_name() -> None:
    assert tuple(FORMATS) == enum_names(media_pb2.CaptionFormat.DESCRIPTOR)
    for info in format_infos():
        entry = format_for(job_pb2.Job(), info.format, word_cues=False)
        assert entry is FORMATS[info.name]
        assert (info.suffix, info.media_type) == (entry.suffix, entry.media_type)
        assert info.description


def test_an_unspecified_format_is_the_default_one() -> None:
    unspecified = media_pb2.CAPTION_FORMAT_UNSPECIFIED

    assert format_for(job_pb2.Job(), unspecified, word_cues=False) is FORMATS[DEFAULT]


def test_importing_the_registry_imports_no_writer() -> None:
    script = (
        "import sys, captions.formats; print('pysubs2' in sys.modules, 'budoux' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "False"]
