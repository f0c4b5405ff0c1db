"""Sandberth: a Kubernetes operator that gives every sandbox its berth."""

__version__ = "0.1.0"
