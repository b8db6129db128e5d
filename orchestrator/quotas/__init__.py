"""Quotas: what each owner may use of the mesh, what is used, and what is admitted.

May import access and queue; knows jobs and collections only as messages.
"""
