"""Batches of recordings: discovery, fan-out into jobs, fan-in of results, reports.

May import jobs, watch, worker, queue, pipeline and the address check of webhooks; never api.
"""
