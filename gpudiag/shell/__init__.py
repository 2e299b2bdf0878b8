"""Shell lines: what they say, whom they would hit, and which of their steps ever ran."""
