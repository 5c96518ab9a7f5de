"""The same experiment across real sites: a coordinator, sites, and Flower between them."""
