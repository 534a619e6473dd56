"""Windows as operators: sessions in `session`, tumbling and hopping in `fixed`."""
