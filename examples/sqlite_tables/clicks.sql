CREATE TABLE clicks (user TEXT, at TEXT);
INSERT INTO clicks VALUES
  ('ann', '2026-01-01T12:00:00Z'),
  ('bob', '2026-01-01T12:00:05Z'),
  ('ann', '2026-01-01T12:00:20Z'),
  ('ann', '2026-01-01T12:05:00Z');
