"""What a run recorded in the formats of other programs, a module for each: records in, text or bytes out."""
