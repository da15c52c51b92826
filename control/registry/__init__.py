"""Where new nodes register the key that they are known by afterwards."""
