"""Events in and out: anyone may start a collection by a message, and hear what came of it."""
