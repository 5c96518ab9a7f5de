"""From the records in results/ to what a reader sees: tables, sentences and pictures."""
