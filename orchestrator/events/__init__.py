"""JSON events over NATS: an inbox that starts collections and an outbox that publishes results.

May import jobs and queue; never api.
"""
