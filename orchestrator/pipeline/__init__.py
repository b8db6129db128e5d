"""One run through the stages: the stage table, calls, circuits, pipes, stall detection.

Knows no job record and no broker; may import mesh, settings and the retry policy only.
"""
