"""Placement, accounting and sizes: pure functions and plain state, with time and chance as arguments."""
