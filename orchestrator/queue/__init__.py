"""The work queues on JetStream: lanes, dispatch, pull consumers, paging, capacity.

May import mesh and settings only.
"""
