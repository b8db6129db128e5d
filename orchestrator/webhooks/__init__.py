"""Webhooks for ended jobs and collections: a durable queue, a sender, a delivery log.

May import jobs and queue; never api.
"""
