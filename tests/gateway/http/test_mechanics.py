"""The tables between the contracts and the HTTP face."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import telling
from gateway.choices import Choices, CueRules, Download, Options, chosen_in, options_for
from gateway.limits import Buckets, client_of
from gateway.naming import disposition, safe_name
from gateway.problems import SPECIAL, STATUSES, RefusedError, status_of
from gateway.ranges import OutsideError, wanted
from gateway.security import Guard
from gateway.settings import Settings
from gateway.story_events import sent
from mesh import errors
from mesh.reasons import Reason
from mesh.status import CODES
from ytcaption.v1 import job_pb2, media_pb2

DOWNLOAD, NORMALIZATION, TRANSCRIPTION = (
    job_pb2.STAGE_DOWNLOAD,
    job_pb2.STAGE_NORMALIZATION,
    job_pb2.STAGE_TRANSCRIPTION,
)
PENDING, RUNNING = job_pb2.STAGE_STATE_PENDING, job_pb2.STAGE_STATE_RUNNING
COMPLETED, SKIPPED = job_pb2.STAGE_STATE_COMPLETED, job_pb2.STAGE_STATE_SKIPPED


def test_every_code_our_errors_travel_in_has_a_status() -> None:
    assert set(CODES.values()) == set(STATUSES)
    assert all(400 <= status < 600 for status in (*STATUSES.values(), *SPECIAL.values()))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequestError("", reason=Reason.REQUEST_INVALID), 400),
        (errors.UnusableMediaError("", reason=Reason.EMPTY_MEDIA), 400),
        (errors.NotFoundError("", reason=Reason.JOB_NOT_FOUND), 404),
        (errors.SourceRefusedError("", reason=Reason.JOB_NOT_ENDED), 409),
        (errors.LimitExceededError("", reason=Reason.TOO_LARGE), 413),
        (errors.UnsupportedError("", reason=Reason.OPTION_UNSUPPORTED), 422),
        (errors.LimitExceededError("", reason=Reason.TOO_LONG), 429),
        (errors.UnavailableError("", reason=Reason.STORAGE_UNAVAILABLE), 503),
        (errors.TimedOutError("", reason=Reason.DEADLINE), 504),
        (errors.LimitExceededError("", reason=Reason.STORAGE_FULL), 507),
        (RefusedError(416, ""), 416),
    ],
)
def test_a_failure_has_the_status_callers_expect(error: errors.MeshError, status: int) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize(
    ("state", "stages", "word"),
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
def test_the_word_for_a_job_is_the_furthest_stage_that_has_begun(
    state: "job_pb2.JobState.ValueType",
    stages: "dict[job_pb2.Stage.ValueType, job_pb2.StageState.ValueType]",
    word: str,
) -> None:
    found = [
        job_pb2.StageStatus(stage=stage, state=stages.get(stage, PENDING))
        for stage in (DOWNLOAD, NORMALIZATION, TRANSCRIPTION)
    ]

    assert telling.status_word(state, found) == word


def test_a_stage_tells_amounts_in_its_own_unit() -> None:
    moved = media_pb2.ByteProgress(done_bytes=50, total_bytes=200, bytes_per_second=25)
    moved.remaining.FromSeconds(6)
    fetched = job_pb2.StageStatus(
        stage=DOWNLOAD, state=RUNNING, progress=media_pb2.Progress(bytes=moved)
    )
    heard = media_pb2.MediaProgress()
    heard.done.FromMilliseconds(1500)
    listened = job_pb2.StageStatus(
        stage=TRANSCRIPTION, state=RUNNING, progress=media_pb2.Progress(media=heard)
    )

    first, second = telling.stage("id", fetched), telling.stage("id", listened)

    assert (first.done, first.total, first.unit, first.progress) == (50, 200, "bytes", 25.0)
    assert (first.bytes_per_second, first.eta_seconds) == (25.0, 6.0)
    assert (second.done, second.total, second.unit, second.progress) == (1.5, None, "seconds", 0)


def test_options_pass_both_ways_without_loss() -> None:
    asked = Options(
        language="pt",
        remove_noise=False,
        captions_policy="prefer_human",
        loudness_lufs=-20,
        cue_rules=CueRules(max_lines=1, min_duration=0.5),
        download=Download(user_agent="x", request_interval=1.5),
    )

    told = chosen_in(options_for(asked, Settings()))

    chosen = asked.model_dump(exclude_none=True)
    assert told.model_dump(exclude_none=True) == chosen | {
        "convert_to_mono": True,
        "set_sample_rate_16k": True,
    }


def test_every_option_of_the_contract_can_be_chosen() -> None:
    assert set(Options.model_fields) == {f.name for f in job_pb2.JobOptions.DESCRIPTOR.fields}
    assert set(CueRules.model_fields) == {f.name for f in media_pb2.CueRules.DESCRIPTOR.fields}
    assert set(Download.model_fields) == {
        f.name for f in media_pb2.DownloadOptions.DESCRIPTOR.fields
    }


def test_what_the_caller_leaves_open_the_operator_decides() -> None:
    settings = Settings(default_language="pt", default_remove_noise=False)

    left_open = options_for(Choices(), settings)
    chosen = options_for(Choices(language="en", remove_noise=True), settings)
    mixed = options_for(Choices(mixed_languages=True), settings)

    assert (left_open.language, left_open.remove_noise) == ("pt", False)
    assert (chosen.language, chosen.remove_noise) == ("en", True)
    assert not mixed.HasField("language")


def test_variables_of_the_earlier_system_count_where_ours_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = {"HOST": "::1", "PORT": "9000", "DEFAULT_LANGUAGE": "pt", "DEFAULT_CONVERT_MONO": "no"}
    for name, value in old.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DEFAULT_REMOVE_NOISE", "")

    settings = Settings()
    monkeypatch.setenv("GATEWAY_LISTEN", "127.0.0.1:7")

    assert settings.listen == "[::1]:9000"
    assert (settings.default_language, settings.default_convert_to_mono) == ("pt", False)
    assert settings.default_remove_noise
    assert Settings().listen == "127.0.0.1:7"


@given(st.text(max_size=300))
def test_no_name_escapes_its_header(name: str) -> None:
    said = disposition(name, "captions.srt", attachment=True)

    assert said.isascii()
    assert said.isprintable()
    assert said.count('"') == 2
    assert safe_name(name, "captions.srt")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("talk.srt", "talk.srt"),
        ("a\r\nb.srt", "ab.srt"),
        ("evil\u202etrs.exe.srt", "eviltrs.exe.srt"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...", "fallback.srt"),
        (".srt", "srt"),
        ("Über größer.srt", "Über größer.srt"),
    ],
)
def test_a_name_keeps_what_a_reader_needs(name: str, safe: str) -> None:
    assert safe_name(name, "fallback.srt") == safe


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60))
def test_a_range_is_always_within_the_file(size: int, first: int, last: int) -> None:
    try:
        span = wanted(f"bytes={first}-{last}", size)
    except OutsideError:
        assert first >= size
        return
    if span is None:
        assert last < first
    else:
        assert list(range(size))[first : last + 1] == list(range(span.first, span.last + 1))


def test_a_bucket_fills_again_with_time_and_others_do_not_share_it() -> None:
    buckets = Buckets(rate=2, burst=2)

    taken = [buckets.take("a", 0.0) for _ in range(3)]

    assert taken == [0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0
    assert buckets.take("a", 0.5) == 0
    assert buckets.take("a", 0.5) > 0


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_one_client_is_an_address_or_the_network_it_was_given_out_with(
    address: str, other: str, same: bool
) -> None:
    assert (client_of({"client": (address, 1)}) == client_of({"client": (other, 1)})) is same


@pytest.mark.parametrize(
    ("listen", "hosts", "host", "allowed"),
    [
        ("127.0.0.1:8000", "", "localhost:8000", True),
        ("127.0.0.1:8000", "", "[::1]:8000", True),
        ("127.0.0.1:8000", "", "evil.test", False),
        ("127.0.0.1:8000", "", "", False),
        ("0.0.0.0:8000", "", "anything.test", True),
        ("0.0.0.0:8000", "captions.test", "CAPTIONS.test:80", True),
        ("0.0.0.0:8000", "captions.test", "evil.test", False),
    ],
)
def test_names_we_answer_to(listen: str, hosts: str, host: str, allowed: bool) -> None:
    from starlette.datastructures import Headers

    async def nothing(*_: object) -> None: ...

    guard = Guard(nothing, Settings(listen=listen, hosts=hosts))

    assert (guard._refusal("GET", Headers({"host": host})) is None) is allowed


def test_an_event_is_one_line_of_data_whatever_it_says() -> None:
    told = sent("story", {"type": "x", "text": "a\nb\r\n\nevent: finished\u2028"}, sequence=7)

    assert told.decode().split("\n") == [
        "event: story",
        "id: 7",
        'data: {"type":"x","text":"a\\nb\\r\\n\\nevent: finished\u2028"}',
        "",
        "",
    ]
