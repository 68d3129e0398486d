"""Charges time to classes, concludes a verdict, ranks findings, compares traces."""
