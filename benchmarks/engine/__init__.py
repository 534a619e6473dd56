"""The whole engine on files of clicks, beside Spark's own session windows on the same files."""
