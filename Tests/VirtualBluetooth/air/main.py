#!/usr/bin/env python3
"""Plays the air around a machine: adapters of the kernel, and meters with faults on request.

usage: main.py FOLDER      (as root, in a kernel with /dev/vhci)

Listens on the socket FOLDER/control for lines of JSON, {"do": NAME, ...}, and answers each with a
line, {"ok": ...} or {"error": TEXT}. Writes what happens to FOLDER/journal, a line of JSON each:
{"t": seconds since 1970, "who": NAME, "event": ...}. "ready" on standard output when it listens.
"""
import asyncio
import json
import logging
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))

from meters import Meter  # noqa: E402
from radio import Adapter, Ether, public  # noqa: E402


class Air:
    def __init__(self, folder):
        self.file = open(f"{folder}/journal", "a", buffering=1, encoding="utf-8")
        self.ether = Ether()
        self.adapters, self.meters = {}, {}

    def journal(self, who, **what):
        self.file.write(json.dumps({"t": round(time.time(), 4), "who": who, **what}) + "\n")

    # --- What can be asked for: each is a method with the keys of the request as parameters ------

    async def plug(self, adapter, address, slots=7):
        if adapter not in self.adapters:
            self.adapters[adapter] = Adapter(
                adapter, self.ether, public(address), slots, self.journal)
        self.adapters[adapter].slots = slots
        index = await self.adapters[adapter].plug()
        self.journal(adapter, event="plugged", index=index)
        return index

    async def unplug(self, adapter):
        self.journal(adapter, event="unplugged")
        await self.adapters[adapter].unplug()

    async def wedge(self, adapter, on):
        self.adapters[adapter].wedged = on

    async def populate(self, meters):
        """Only these meters from now on."""
        for meter in self.meters.values():
            meter.stop()
        self.meters.clear()
        for options in meters:
            await self.add(options)

    async def add(self, options):
        meter = self.meters[options["name"]] = Meter(self, options)
        await meter.start()

    async def vanish(self, meter, seconds=None):
        meter = self.meters[meter]
        meter.vanish()
        if seconds is not None:
            meter.spawn(self.come_back(meter, seconds))

    async def come_back(self, meter, seconds):
        await asyncio.sleep(seconds)
        await meter.appear()

    async def appear(self, meter):
        await self.meters[meter].appear()

    async def drop(self, meter):
        await self.meters[meter].drop()

    async def hold(self, meter):
        await self.meters[meter].hold()

    async def release(self, meter):
        await self.meters[meter].release()

    async def load(self, meter, amperes):
        self.meters[meter].load.amperes = amperes

    async def fault(self, meter, fault, on):
        faults = self.meters[meter].faults
        (faults.add if on else faults.discard)(fault)
        self.meters[meter].mute = False

    async def pin(self, meter, pin):
        self.meters[meter].module.pin = pin

    async def forget_keys(self, meter):
        self.meters[meter].module.keys.clear()

    # --- The socket -----------------------------------------------------------------------------

    async def serve(self, reader, writer):
        while line := await reader.readline():
            request = json.loads(line)
            name = request.pop("do")
            try:
                answer = {"ok": await asyncio.wait_for(getattr(self, name)(**request), 30)}
            except Exception as error:  # the caller is told, and decides
                answer = {"error": f"{name}: {error!r}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()


async def main(folder):
    logging.basicConfig(level=os.environ.get("LEVEL", "ERROR"), stream=sys.stderr)
    air = Air(folder)
    server = await asyncio.start_unix_server(air.serve, f"{folder}/control")
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
