"""The lab: the reference engine as a real server with one known fault, and the load that shows it."""
