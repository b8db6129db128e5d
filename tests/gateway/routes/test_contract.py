"""The routes of the earlier system, with names and types as its callers know them."""

from datetime import datetime, timedelta
from typing import Any

import httpx2

from tests.gateway.http import settled

ACCEPTED = {"job_id", "status", "message", "youtube_url", "overall_progress"}
JOB = {
    *("job_id", "youtube_url", "status", "overall_progress", "created_at", "updated_at"),
    *("completed_at", "stages", "transcription_text", "transcription_segments"),
    *("transcription_file", "audio_file"),
}
STAGE = {"status", "job_id", "progress", "started_at", "completed_at"}


async def test_the_old_flow_leads_from_an_address_to_text_and_segments(
    http: httpx2.AsyncClient, spoken_url: str
) -> None:
    accepted = await http.post("/pipeline", json={"youtube_url": spoken_url})
    job_id = accepted.json()["job_id"]
    job = await settled(http, job_id)

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


async def test_every_stage_tells_how_far_it_is(heard: dict[str, Any]) -> None:
    assert list(heard["stages"]) == ["download", "normalization", "transcription"]
    for stage in heard["stages"].values():
        assert stage.keys() >= STAGE
        assert (stage["status"], stage["progress"]) == ("completed", 100.0)
        assert _utc(stage["started_at"]) <= _utc(stage["completed_at"])


async def test_what_the_caller_leaves_out_is_as_it_always_was(
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


async def test_what_the_caller_chooses_is_what_the_job_is_told(
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


async def test_a_failed_job_says_why(http: httpx2.AsyncClient, site: Any) -> None:
    gone = f"{site.url}/files/nothing-here.ogg"

    accepted = await http.post("/pipeline", json={"youtube_url": gone})
    job = await settled(http, accepted.json()["job_id"])

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
    http: httpx2.AsyncClient, heard: dict[str, Any]
) -> None:
    async def found(**asked: Any) -> list[str]:
        return [job["job_id"] for job in (await http.get("/jobs", params=asked)).json()["jobs"]]

    assert heard["job_id"] in await found(q="SHORT.ogg")
    assert await found(q=heard["job_id"]) == [heard["job_id"]]
    assert heard["job_id"] in await found(q="short", state=["succeeded", "failed"])
    assert heard["job_id"] not in await found(q="short", state="failed")
    assert await found(q="no such words anywhere") == []


async def test_health_names_the_stages_as_it_always_did(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/health")
    health = answer.json()

    assert answer.status_code == 200
    assert health["status"] == "healthy"
    assert health["service"] == "ytcaption-orchestrator"
    assert health["version"]
    assert _utc(health["timestamp"])
    assert health["microservices"] == dict.fromkeys(
        ("video-downloader", "audio-normalization", "audio-transcriber"), "healthy"
    )
    assert health["components"].keys() >= {"gateway", "orchestrator", "nats", "transcriber"}


async def test_stats_have_the_old_names_and_the_figures_of_today(
    http: httpx2.AsyncClient, heard: dict[str, Any]
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


async def test_cleanup_takes_its_choices_from_body_or_query(http: httpx2.AsyncClient) -> None:
    bare = (await http.post("/admin/cleanup")).json()
    asked = (await http.post("/admin/cleanup", params={"deep": True, "dry_run": True})).json()
    said = (await http.post("/admin/cleanup", json={"max_age_hours": 0, "dry_run": True})).json()

    assert bare["jobs_removed"] == bare["collections_removed"] == 0
    assert bare.keys() >= {"message", "jobs_removed", "logs_cleaned"}
    assert asked["jobs_removed"] == said["jobs_removed"] >= 1
    assert asked["dry_run"]


async def test_the_mesh_says_what_it_can_do(http: httpx2.AsyncClient) -> None:
    can = (await http.get("/capabilities")).json()

    assert [model for model in can["models"] if model["selected"]]
    assert "en" in can["languages"]
    assert can["formats"] == ["srt", "vtt", "txt", "json", "tsv", "lrc"]
    most = can["limits"]["max_upload_bytes"]
    assert (most, type(most)) == (8 * 1024**3, int)
    assert can["silent_stages"] == []


def _utc(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    assert time.utcoffset() == timedelta(0)
    return time
