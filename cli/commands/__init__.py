"""What can be typed. Each command imports what it needs when it runs: `--help` must be quick."""
