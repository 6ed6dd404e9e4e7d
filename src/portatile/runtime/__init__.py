"""The run-time: from a request to its launches, and what is prepared for a device on the way."""
