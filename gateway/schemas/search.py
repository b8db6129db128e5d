"""Responses about searches in captions."""

from datetime import datetime

from pydantic import Field

from gateway.schemas.jobs import ResponseModel


class Match(ResponseModel):
    """A part of a snippet that matches."""

    start: int = Field(description="First character of the snippet, counted from 0.")
    end: int = Field(description="The character after the last.")


class SearchHit(ResponseModel):
    """One passage."""

    job_id: str
    title: str
    source: str = Field(description="Address of the recording, or name of the uploaded file.")
    start: float = Field(description="Seconds; when the passage begins.")
    end: float
    at: float = Field(description="Seconds; when the first match is said.")
    snippet: str
    matches: list[Match]
    language: str
    translated: bool = Field(description="Whether the passage is a translation.")
    collection_id: str
    completed_at: datetime | None
    url: str = Field(description="The page, with the player at that moment.")


class SearchResults(ResponseModel):
    """One page of passages, best first."""

    hits: list[SearchHit]
    next_page_token: str
    indexed: int = Field(description="Recordings that were searched, of what the caller may see.")
    behind: int = Field(description="Recordings that ended and are not in the index yet.")
