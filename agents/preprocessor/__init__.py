"""The preprocessor beside a gateway: pictures and sounds become units of encoders, in a tensor sidecar of its own from
which executors pull them."""
