"""Blocking JSON client of the gateway, to prepare what a browser test needs."""

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

SECONDS = 60
END_STATES = ("succeeded", "failed", "cancelled")


class ApiClient:
    """Submits, reads and deletes jobs; makes collections, and registers types for them."""

    def __init__(self, base: str, token: str = "") -> None:
        self._base = base
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def submit(self, address: str, **options: Any) -> str:
        """Submits a job; returns its id."""
        body = {"youtube_url": address, "force": True} | options
        return str(self._request("POST", "/pipeline", body)["job_id"])

    def job(self, job_id: str) -> dict[str, Any]:
        return self._request("GET", f"/jobs/{job_id}")

    def jobs(self) -> dict[str, Any]:
        return self._request("GET", "/jobs?limit=100")

    def delete(self, job_id: str) -> None:
        self._request("DELETE", f"/jobs/{job_id}")

    def collect(self, **fields: Any) -> str:
        """Makes a collection; returns its id."""
        return str(self._request("POST", "/collections", fields)["collection_id"])

    def add_type(self, role: str, name: str, address: str) -> None:
        """Registers a collector or an executor that serves at this address."""
        body = {"type": name, "role": role, "addresses": [address]}
        self._request("POST", "/admin/types", body)

    def remove_type(self, role: str, name: str) -> None:
        self._request("DELETE", f"/admin/types/{role}/{name}")

    def finished(self, job_id: str) -> str:
        """Waits until the job has ended; returns the same id."""
        self._until(job_id, lambda job: job["state"] in END_STATES)
        return job_id

    def found(self, words: str, job_id: str) -> dict[str, Any]:
        """The best passage of a job for these words, once it is in the index."""
        path = f"/search?{urlencode({'q': words, 'job_id': job_id})}"
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if hits := self._request("GET", path)["hits"]:
                return dict(hits[0])
            time.sleep(0.1)
        raise TimeoutError(words)

    def runs(self, job_id: str, stage: str) -> None:
        """Waits until the stored job says that a stage runs: events are faster than that."""
        self._until(job_id, lambda job: job["stages"][stage]["status"] == "running")

    def _until(self, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if holds(self.job(job_id)):
                return
            time.sleep(0.1)
        raise TimeoutError(job_id)

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._base}{path}", data, self._headers, method=method)  # noqa: S310 # our own gateway
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found
