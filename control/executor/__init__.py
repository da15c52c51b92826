"""Effects on clouds. The order is always: record the intent, act, record the outcome; a crash at any step is mended."""
