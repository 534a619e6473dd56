"""Operators of every kind, as the engine and its tasks see them."""
