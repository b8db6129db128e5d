"""The life of one job in storage: records, event log, lease, completion, dead letters, index.

May import queue and pipeline; never worker, watch, collections, webhooks or events.
"""
