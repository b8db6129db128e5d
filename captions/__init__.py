"""Turns transcript segments into cues, and cues into caption files.

Imports no service, no transport and no broker: only text and time.
"""
