"""Ways to write a pipeline: each ends in the same value."""
