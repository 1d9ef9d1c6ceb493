#!/usr/bin/env python3
"""Runs tests in the virtual machine.

usage: main.py RESULTS      (as root, as the machine's first program)
       main.py --list       names the tests, each with its time limits

RESULTS/parameters is JSON: {"program": path or null, "tests": names, "full": true or false}.
"""
import contextlib
import ctypes
import json
import os
import shutil
import sys
import time

import bench
import harness
import kernel
# In the order of the tests: once the kernel has its modules, it is never again without.
import without  # noqa: F401
import probe  # noqa: F401
import checks  # noqa: F401

LABELS = {"um24c": "UM24C", "um25c": "UM25C", "um34c": "UM34C", "a3b": "UM24C",
          "tc66c-old": "TC66C", "tc66c-new": "BT24-M", "um34c-spp": "UM34C", "um25c-spp": "UM25C",
          "band": "Pulse Band 3", "tag": "iTAG"}
MODELS = {"a3b": "UM24C", "tc66c-old": "TC66C", "tc66c-new": "TC66C", "band": None, "tag": None}


class Scene:
    """What a test finds: radios, a broker, the program, none of them used by an earlier test."""

    air = broker = None

    def __init__(self, parameters, results):
        self.path, self.full = parameters["program"], parameters["full"]
        self.results = results

    def __call__(self, name, report):
        return self.ready(name, report)

    @contextlib.contextmanager
    def ready(self, name, report):
        self.report, self.name = report, name
        if name == "no-bluetooth":
            self.program = bench.Program(self.path, f"/run/{name}", self.results, name)
            yield self
            return
        if Scene.air is None:
            kernel.load_modules()
            Scene.air = bench.Air(self.results)
            Scene.broker = bench.Broker("/run", self.results)
        self.index = None
        self.begun = self.air.begun = time.time()
        self.program = None
        if self.path:
            self.program = bench.Program(self.path, f"/run/{name}", self.results, name)
        self.plug()
        try:
            yield self
        finally:
            if self.program and self.program.running():
                if self.program.stop() is None:
                    report.check(False, "the program stops within 8 s when told to")
            time.sleep(2.2)  # the kernel keeps a link for 2 s after its socket
            self.air.do("populate", meters=[])
            self.unplug()
            self.broker.forget()
            shutil.copy(f"{self.air.folder}/journal", f"{self.results}/journal.jsonl")

    @staticmethod
    def synchronise_clock():
        """Lets the kernel say what it says after a time server was heard."""
        state = bytearray(208)
        state[0] = 0x10 | 0x04  # ADJ_STATUS, ADJ_MAXERROR, both to 0
        buffer = (ctypes.c_char * 208).from_buffer(state)
        kernel.LIBC.adjtimex(buffer)

    # --- The adapter ----------------------------------------------------------------------------

    def plug(self, slots=7):
        self.index = self.air.do("plug", adapter="dongle", address=bench.ADAPTER, slots=slots)
        # The kernel asks it a lot before it shows it.
        with kernel.Management() as mgmt:
            if not bench.wait_for(lambda: self.index in mgmt.indices(), 10):
                raise RuntimeError("the kernel does not take the adapter")

    def unplug(self):
        if self.index is not None:
            self.air.do("unplug", adapter="dongle")
            self.index = None

    def replug_elsewhere(self, gone=0.0):
        """Takes the adapter out and puts it in again so that it gets another number."""
        self.unplug()
        time.sleep(gone)
        # The number that has become free goes to somebody else.
        self.air.do("plug", adapter="other", address="F0:00:00:00:00:02")
        self.plug()
        self.air.do("unplug", adapter="other")

    # --- The meters -----------------------------------------------------------------------------

    # What the air wants to know of a meter.
    SENT = ("name", "kind", "address", "amperes", "volts", "rssi", "faults", "pin", "channel", "sdp",
            "mtu")

    @staticmethod
    def complete(meter, number):
        """A meter with all that was left open, and with what to expect of it."""
        kind = meter["kind"]
        prefix = "F1:0B:1D:00:55" if MODELS.get(kind, kind) is None else "00:15:A3:00:55"
        return {"address": f"{prefix}:{number:02X}", "amperes": 0.5 + 0.15 * number,
                "volts": 4.9 + 0.05 * number, "rssi": -50 - 2 * number,
                "advertised": LABELS[kind],
                "model": MODELS.get(kind, kind.removesuffix("-spp").upper()), **meter}

    def populate(self, meters):
        """Only these devices from now on; gives them by name, with what to expect of them."""
        ready = {meter["name"]: self.complete(meter, number)
                 for number, meter in enumerate(meters, 1)}
        self.air.do("populate", meters=[self.sent(meter) for meter in ready.values()])
        return ready

    def add(self, meter):
        """One more, which `complete` has prepared."""
        self.air.do("add", options=self.sent(meter))

    def sent(self, meter):
        return {key: meter[key] for key in self.SENT if key in meter}


def main(results):
    if results == "--list":
        for name, limits in harness.LIMITS.items():
            print(name, *limits)
        return 0
    with open(f"{results}/parameters", encoding="utf-8") as file:
        parameters = json.load(file)
    scene = Scene(parameters, results)
    passed = [harness.run(name, scene) for name in parameters["tests"]]
    if Scene.broker:
        Scene.broker.stop()
        bench.end(Scene.air.process)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
