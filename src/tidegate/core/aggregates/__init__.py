"""Aggregates: what a window knows of its rows.

    events -> lift -> partial -> combine -> partial ... -> lower -> value

Start at `protocol`. Each aggregate has a row in `pipeline/aggregates.py`, a class in a module here,
and a line in `table`; those of other packages come by entry point, see `registered`.
"""
