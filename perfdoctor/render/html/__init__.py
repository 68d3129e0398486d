"""The report as one HTML file that opens offline: one script of its own, no request, all escaped."""
