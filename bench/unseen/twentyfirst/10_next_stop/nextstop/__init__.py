"""Next-stop prediction for the parcel fleet."""
