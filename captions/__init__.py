"""Segments become cues, cues become files. Knows nothing of services, calls or the broker."""
