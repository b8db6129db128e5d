"""Telling others, over HTTP, that a job or a collection has ended."""
