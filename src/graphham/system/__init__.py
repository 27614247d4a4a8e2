"""What every room needs of the machine: compiled loops, lent buffers, threads, whole files."""
