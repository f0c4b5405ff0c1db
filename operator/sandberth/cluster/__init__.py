"""Test beds: a real control plane on this machine."""
