"""The runtime every service shares."""
