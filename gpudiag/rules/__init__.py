"""Rules: one TOML file a cause, read by a small three-valued engine over the fact tables."""
