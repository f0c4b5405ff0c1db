"""The reporters: what each node holds, written to its NodeCapacity."""
