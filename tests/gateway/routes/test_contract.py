"""Compatibility with the earlier system: its routes keep their field names and types."""

from datetime import datetime, timedelta
from typing import Any

import httpx2

from captions.formats import FORMATS
from tests.support.http import ended_job
from tests.support.polling import until

ACCEPTED = {"job_id", "status", "message", "youtube_url", "overall_progress"}
JOB = {
    *("job_id", "youtube_url", "status", "overall_progress", "created_at", "updated_at"),
    *("completed_at", "stages", "transcription_text", "transcription_segments"),
    *("transcription_file", "audio_file"),
}
STAGE = {"status", "job_id", "progress", "started_at", "completed_at"}


async def test_a_url_leads_to_text_and_segments_as_in_the_earlier_system(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    accepted = await http.post("/pipeline", json={"youtube_url": spoken_url})
    job_id = accepted.json()["job_id"]
    job = await ended_job(http, job_id)

    assert accepted.status_code == 202
    assert accepted.headers["Location"] == f"/jobs/{job_id}"
    assert (
        accepted.json().items()
        >= {
            "status": "queued",
            "youtube_url": spoken_url,
            "overall_progress": 0.0,
        }.items()
    )
    assert accepted.json().keys() >= ACCEPTED
    assert job["status"] == "completed"
    assert job.keys() >= JOB
    assert job["overall_progress"] == 100.0
    assert "weather" in job["transcription_text"]
    for segment in job["transcription_segments"]:
        assert segment["duration"] == round(segment["end"] - segment["start"], 3)
        assert segment["text"] in job["transcription_text"]
    assert _utc(job["created_at"]) <= _utc(job["updated_at"])
    assert _utc(job["created_at"]) <= _utc(job["completed_at"])


async def test_every_stage_reports_its_progress(finished_job: dict[str, Any]) -> None:
    assert list(finished_job["stages"]) == ["download", "normalization", "transcription"]
    for stage in finished_job["stages"].values():
        assert stage.keys() >= STAGE
        assert (stage["status"], stage["progress"]) == ("completed", 100.0)
        assert _utc(stage["started_at"]) <= _utc(stage["completed_at"])


async def test_omitted_options_have_the_defaults_of_the_earlier_system(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    accepted = await http.post("/pipeline", json={"youtube_url": spoken_url})
    job = (await http.get(f"/jobs/{accepted.json()['job_id']}")).json()

    assert (
        job["options"].items()
        >= {
            "language": "auto",
            "language_out": None,
            "remove_noise": True,
            "convert_to_mono": True,
            "apply_highpass_filter": False,
            "set_sample_rate_16k": True,
            "isolate_vocals": False,
        }.items()
    )


async def test_chosen_options_are_those_of_the_job(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    chosen = {
        "language": "en",
        "remove_noise": False,
        "apply_highpass_filter": True,
        "beam_size": 2,
        "hotwords": "weather",
        "captions_policy": "prefer_human",
        "loudness_lufs": -16.0,
        "cue_rules": {"max_lines": 1, "min_gap": 0.25},
    }
    order = {**chosen, "caller": "a test", "priority": "low", "correlation_id": "thread-7"}

    accepted = await http.post("/pipeline", json={"youtube_url": spoken_url, **order})
    job = (await http.get(f"/jobs/{accepted.json()['job_id']}")).json()

    assert {name: job["options"][name] for name in chosen} == chosen | {
        "cue_rules": {
            **dict.fromkeys(("max_line_length", "max_characters_per_second")),
            **dict.fromkeys(("min_duration", "max_duration")),
            "max_lines": 1,
            "min_gap": 0.25,
        }
    }
    assert (job["caller"], job["priority"], job["correlation_id"]) == ("a test", "low", "thread-7")


async def test_a_failed_job_has_a_reason(http: httpx2.AsyncClient, site: Any) -> None:
    gone = f"{site.url}/files/nothing-here.ogg"

    accepted = await http.post("/pipeline", json={"youtube_url": gone})
    job = await ended_job(http, accepted.json()["job_id"])

    assert job["status"] == "failed"
    assert job["failure"]["reason"] == "VIDEO_NOT_FOUND"
    assert job["error"] == job["failure"]["message"]
    assert job["transcription_text"] is None
    assert job["can_retry"]


async def test_jobs_are_listed_newest_first_in_pages(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    order = {"youtube_url": spoken_url}
    made = [(await http.post("/pipeline", json=order)).json()["job_id"] for _ in range(3)]

    first = (await http.get("/jobs", params={"limit": 2})).json()
    token = first["next_page_token"]
    second = (await http.get("/jobs", params={"limit": 2, "page_token": token})).json()

    assert [job["job_id"] for job in first["jobs"]] == [made[2], made[1]]
    assert second["jobs"][0]["job_id"] == made[0]
    assert first["total"] >= 3
    assert first["jobs"][0].keys() >= {
        *("job_id", "youtube_url", "status", "progress", "created_at", "updated_at")
    }


async def test_jobs_are_found_by_words_and_states(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    async def found(**query: Any) -> list[str]:
        return [job["job_id"] for job in (await http.get("/jobs", params=query)).json()["jobs"]]

    assert finished_job["job_id"] in await found(q="SHORT.ogg")
    assert await found(q=finished_job["job_id"]) == [finished_job["job_id"]]
    assert finished_job["job_id"] in await found(q="short", state=["succeeded", "failed"])
    assert finished_job["job_id"] not in await found(q="short", state="failed")
    assert await found(q="no such words anywhere") == []


async def test_health_uses_the_legacy_names_of_the_stages(http: httpx2.AsyncClient) -> None:
    health: dict[str, Any] = {}

    async def healthy() -> bool:
        answer = await http.get("/health")
        health.update(answer.json())
        return answer.status_code == 200

    await until(healthy)  # a busy machine may answer one check too late

    assert health["status"] == "healthy"
    assert health["service"] == "ytcaption-orchestrator"
    assert health["version"]
    assert _utc(health["timestamp"])
    assert health["microservices"] == dict.fromkeys(
        ("video-downloader", "audio-normalization", "audio-transcriber"), "healthy"
    )
    assert health["components"].keys() >= {"gateway", "orchestrator", "nats", "transcriber"}


async def test_stats_have_the_legacy_field_names(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    stats = (await http.get("/admin/stats")).json()

    assert stats["orchestrator"].keys() >= {"version", "environment"}
    assert stats["redis"]["total_jobs"] >= stats["redis"]["completed_jobs"] >= 1
    assert stats["redis"].keys() >= {"active_jobs", "memory_usage"}
    assert (
        stats["settings"].items()
        >= {
            "cache_ttl_hours": 24.0,
            "job_timeout_minutes": 720.0,
        }.items()
    )


async def test_cleanup_takes_its_options_from_body_or_query(http: httpx2.AsyncClient) -> None:
    async def idle() -> bool:
        """Whether every job of the tests before has ended."""
        active = {"state": ["queued", "running"]}
        return bool((await http.get("/jobs", params=active)).json()["total"] == 0)

    await until(idle, 120)
    bare = (await http.post("/admin/cleanup")).json()
    by_query = (
        await http.post("/admin/cleanup", params={"max_age_hours": 0, "dry_run": True})
    ).json()
    by_body = (await http.post("/admin/cleanup", json={"max_age_hours": 0, "dry_run": True})).json()

    assert bare["jobs_removed"] == bare["collections_removed"] == 0
    assert bare.keys() >= {"message", "jobs_removed", "logs_cleaned"}
    assert by_query["jobs_removed"] == by_body["jobs_removed"] >= 1
    assert by_query["dry_run"]


async def test_capabilities_list_models_languages_formats_and_limits(
    http: httpx2.AsyncClient,
) -> None:
    can = (await http.get("/capabilities")).json()

    assert [model for model in can["models"] if model["selected"]]
    assert "en" in can["languages"]
    assert can["formats"] == list(FORMATS)
    assert can["formats"][:6] == ["srt", "vtt", "txt", "json", "tsv", "lrc"]
    assert [one["name"] for one in can["caption_formats"]] == can["formats"]
    assert [one["name"] for one in can["caption_formats"] if one["word_cues"]] == ["vtt"]
    most = can["limits"]["max_upload_bytes"]
    assert (most, type(most)) == (8 * 1024**3, int)
    assert can["silent_stages"] == []


def _utc(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    assert time.utcoffset() == timedelta(0)
    return time
