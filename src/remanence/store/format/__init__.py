"""The file format: plain values and arrays under a checksum."""
