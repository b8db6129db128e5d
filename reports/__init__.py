"""A collection becomes one report. Knows nothing of services, calls or the broker."""
