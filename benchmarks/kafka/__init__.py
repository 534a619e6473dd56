"""Clicks from a Kafka topic: into PostgreSQL, read alone beside Spark's connector, and live."""
