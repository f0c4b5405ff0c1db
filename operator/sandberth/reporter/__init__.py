"""Node reports: what runs on each node, written to its NodeCapacity."""
