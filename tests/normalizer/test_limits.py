"""No file can make the processes of a call exceed their resource limits."""

from pathlib import Path

import pytest

from mesh.errors import LimitExceededError, MeshError, UnusableMediaError
from mesh.reasons import Reason
from normalizer.engine import Options, Request
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker, ScriptMaker
from tests.normalizer.media import normalized, recording

READ_ALL = "cat > /dev/null"


async def test_address_space_is_limited(make_engine: EngineMaker, script: ScriptMaker) -> None:
    reports = script(f'{READ_ALL}; echo "[error] may have $(ulimit -v) kB" >&2; exit 1')
    engine = make_engine(reports, max_memory=512 * 2**20)

    with pytest.raises(UnusableMediaError, match=f"may have {512 * 2**10} kB"):
        await normalized(engine, recording("wav"))


async def test_an_ffmpeg_that_runs_out_of_memory_is_a_typed_failure(
    make_engine: EngineMaker,
) -> None:
    with pytest.raises(MeshError):
        await normalized(make_engine(max_memory=2**24), recording("flac"))


async def test_processor_time_is_limited(make_engine: EngineMaker, script: ScriptMaker) -> None:
    engine = make_engine(script("while :; do :; done"), max_cpu_seconds=1)

    with pytest.raises(LimitExceededError) as caught:
        await normalized(engine, recording("wav"))

    assert caught.value.reason is Reason.TOO_LONG


async def test_no_file_can_be_written(
    make_engine: EngineMaker, script: ScriptMaker, tmp_path: Path
) -> None:
    target = tmp_path / "written"
    engine = make_engine(script(f"{READ_ALL}; exec head -c 9999 /dev/zero > {target}"))

    with pytest.raises(UnusableMediaError, match="signal 25"):
        await normalized(engine, recording("wav"))


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_small_file_cannot_declare_hours_of_silence(
    engine: FfmpegEngine, *, isolate: bool
) -> None:
    sound = "sine=frequency=440:duration=2"
    jump = ("-af", "asetpts='PTS+gte(T,1)*7200/TB'", "-c:a", "libopus", "-b:a", "6k")
    small = recording("mka", *jump, sound=sound)

    assert len(small) < 4096
    with pytest.raises(LimitExceededError) as caught:
        await normalized(engine, small, Request(Options(isolate_vocals=isolate)))
    assert caught.value.reason is Reason.TOO_LONG


async def test_the_kept_audio_is_bounded_by_the_recordings_duration(
    make_engine: EngineMaker, script: ScriptMaker
) -> None:
    second_output = "$(echo \"$*\" | sed 's/.*pipe:\\([0-9]*\\).*/\\1/')"
    flood = script(f"exec cat /dev/zero > /proc/self/fd/{second_output}")
    engine = make_engine(flood, max_duration=1)

    with pytest.raises(LimitExceededError) as caught:
        await normalized(engine, recording("wav"), Request(keep_audio=True))

    assert caught.value.reason is Reason.TOO_LARGE
