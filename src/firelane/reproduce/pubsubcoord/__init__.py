"""The PubSubCoord paper again: sites joined over emulated wide-area links, with real brokers and a real ZooKeeper."""
