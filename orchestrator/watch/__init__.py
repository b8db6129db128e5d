"""Event feeds and live pages for watchers, shared however many watch.

May import jobs and queue; never collections, webhooks or events.
"""
