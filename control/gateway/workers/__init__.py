"""One gateway as several processes on one port.

A supervisor starts workers, each a gateway of its own that listens on the same address (SO_REUSEPORT) and has links of
its own to instances, and starts those again that end. Between it and each worker is a socket pair, on which it counts
the use of keys with limits for all of them, and adds up what they count. It answers no client itself.
"""
