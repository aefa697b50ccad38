"""What survives a crash: written down, read back, and kept small."""
