"""Periodic work: retention, eviction, orphans, reconciliation, poison items, factory reset.

May import every room but api; no other room imports this one.
"""
