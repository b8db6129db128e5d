"""Collectors and executors that are part of the orchestrator: the first users of the contracts.

They get what every other gets. To add one: its module here, and its row in `table`.
"""
