"""The production core in virtual time: what a cluster would do, in seconds, on any machine, the same every time."""
