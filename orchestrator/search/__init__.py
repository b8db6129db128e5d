"""Full-text search over captions: an index on disk, and what keeps it up to date.

`words`, `query`, `passages`, `matches` and `index` know no transport. The rest may use `jobs`.
"""
