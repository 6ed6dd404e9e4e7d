"""From a request to its launches: what is prepared for a device, and how it runs."""
