"""DDS endpoints of a site, joined with those of other sites through its edge."""
