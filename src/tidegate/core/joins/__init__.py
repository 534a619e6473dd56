"""Joins as operators: by the times of rows in `rows`, by sessions in `sessions`."""
