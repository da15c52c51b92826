"""The whole product on one machine: `medley up`."""
