"""The article's story on a real API server: the herd, and the two cures."""
