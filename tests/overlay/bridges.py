"""Sites whose edges have bridges to DDS, and DDS endpoints in processes of their own."""

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread

from sites import Sites, until

from dds_domains import some_domain
from firelane.dds import Network
from firelane.overlay.bridge.bridge import Bridge
from firelane.scenario.dds_settings import DdsSettings

ENDPOINT = Path(__file__).with_name("dds_endpoint.py")
LEASE_S = 1.0
LONG_S = 30.0


class Endpoint:
    """A process with one reader or one writer."""

    def __init__(self, domain, folder, **wanted):
        configuration = folder / f"dds-{domain}.xml"
        configuration.write_text(Network(lease_s=LEASE_S).configuration(domain))
        command = [sys.executable, str(ENDPOINT), str(domain), json.dumps(wanted), str(configuration)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = []
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    @property
    def samples(self):
        return [one["sample"] for one in self.said if "sample" in one]

    @property
    def ended(self):
        return [one["ended"] for one in self.said if "ended" in one]

    def send(self, **sample):
        self.process.stdin.write(json.dumps(sample) + "\n")
        self.process.stdin.flush()

    async def here(self):
        await until(lambda: {"here": True} in self.said, LONG_S)

    def kill(self):
        """As `kill -9` does: nobody is told."""
        self.process.kill()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(5)
        self._thread.join(5)
        self.process.stdout.close()


class Bridged(Sites):
    """Sites, each with a DDS domain of its own that stands for its local network."""

    def __init__(self, folder, registry):
        super().__init__(folder, registry)
        self.domains, self.bridges = {}, {}

    async def bridge(self, name, domain=None, key=None, **settings):
        """Have an edge bridge a domain."""
        domain = self.domains.setdefault(key or name, some_domain()) if domain is None else domain
        wanted = DdsSettings(domain=domain, prefix="dds/0", lease_s=LEASE_S, **settings)
        stack = self._stacks[name]
        tell = lambda line: self.lines.append(f"{name}: {line}")  # noqa: E731
        group = await stack.enter_async_context(asyncio.TaskGroup())
        bridge = stack.enter_context(Bridge(self.exchanges[name], self.brokers[name], wanted, tell=tell))
        task = group.create_task(bridge.run())
        stack.push_async_callback(_ended, task)
        self.bridges[name] = bridge
        return bridge

    @contextmanager
    def endpoint(self, site, **wanted):
        one = Endpoint(self.domains[site], self.folder, **wanted)
        try:
            yield one
        finally:
            one.close()

    def told(self, name):
        return self.brokers[name].statistics()["dds"]

    async def topic_known(self, name, topic):
        return (await self.brokers[name].registry.status()).topics.get(topic)


async def _ended(task):
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def bridged(folder, *, edges=("a", "b"), routers=("r1",), **settings):
    one = Bridged(folder, f"memory://{folder.name}")
    try:
        for name in routers:
            await one.start("router", name)
        for name in edges:
            await one.start("edge", name, **settings)
        await one.joined()
        for name in edges:
            one.domains[name] = some_domain()
            await one.bridge(name)
        yield one
    finally:
        await one.close()
