"""The mesh on this machine: processes, their supervisor, `up` and `doctor`.

May import channel (for probes) and render; never commands, client or files.
"""
