"""Where messages wait: lanes, one for each subscription, and the links that they share. No I/O and no clock."""
