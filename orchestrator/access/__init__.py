"""Who may call: tokens in storage, and the login that every call passes.

Knows no jobs; may import nothing of the orchestrator but its settings and pages of lists.
"""
