"""Conditional scenario generation for the day-ahead wind portfolio."""
