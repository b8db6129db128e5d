"""Tasks: calls of collectors and executors, which are registered by type; their queues and retries.

May import jobs, watch, worker, queue and pipeline; never api, collections, events or webhooks.
"""
