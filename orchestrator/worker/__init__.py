"""Runs attempts at jobs: the runner, readiness, blocked jobs, progress tracking, the retry policy.

May import jobs, queue and pipeline; never collections, webhooks or events.
"""
