"""The paper's own numbers, tables and figures."""
