#!/usr/bin/env python3
"""A simulated USB power meter on a pseudo-terminal, with a truth to hold the agent against.

It shares nothing with the program under test: neither code nor tables. It plays one charge in real
time (idle, constant current, taper, idle), answers like an UM24C, UM25C or UM34C (`F0`) or a TC66C
over USB (`getva`), spoils some of its answers on request, can lose its power for a while, and at
the end writes down what really flowed.

    meter.py --model um25c --link /run/test/meter --profile 5,1.2,40,10,10 \\
             --faults split,flip --fault-rate 0.1 --power-loss 20,6 --truth truth.jsonl

No fault comes in the first three seconds after the power is back, in which nothing but the answers
can tell what flows: the counters of the UM series stand until over 1 mAh is new.

While the power is off the terminal is gone, like a device that was unplugged, or, with
`--power-loss-as silence`, still there but mute, like a link that stands with nobody behind it.

The truth is a file of JSON lines that appears, whole, when the play is over or ended by SIGTERM or
SIGINT. One line for each answer:

    {"type": "frame", "wall": 1764534600.123, "t": 12.5, "voltage": 5.1, "current": 1.2,
     "power": 6.12, "energy_wh": 0.01, "charge_mah": 2.1, "shown_mwh": 10, "shown_mah": 2,
     "sent": {"voltage": 5.1, "current": 1.2, "power": 6.12, "resistance": 4.2, "temperature": 25},
     "faults": ["flip"]}

with the values as they were before any fault, `t` in seconds since the start, `energy_wh` and
`charge_mah` what has really flowed until then, `shown_*` the counters as sent, and `sent` the values
in the digits that the meter has. The last line:

    {"type": "summary", "model": "um25c", "start": ..., "end": ..., "charge_start": ...,
     "charge_end": ..., "energy_wh": ..., "charge_mah": ..., "charge_energy_wh": ...,
     "charge_charge_mah": ..., "peak_power": ..., "frames": 75, "clean_frames": 68, "faults":
     {"flip": 7}, "power_losses": 1, "seed": 1}

`start` and `end` are wall times of the play, `charge_*` of the part between the two idle ones, all
in seconds since 1970. While the power is off nothing flows.
"""

import argparse
import json
import math
import os
import random
import select
import signal
import struct
import sys
import time
import tty

FAULTS = ("split", "stray", "cut", "flip", "badcheck")


# --- The charge ---------------------------------------------------------------------------------

class Charge:
    """Voltage and current as functions of the time, and what has flowed until a time."""

    STEP = 0.01

    def __init__(self, idle, plateau, duration, taper, rest, voltage, idle_current, noise, outage, seed):
        self.marks = (idle, idle + duration, idle + duration + taper, idle + duration + taper + rest)
        self.plateau, self.taper, self.voltage = plateau, taper, voltage
        self.idle_current, self.outage = idle_current, outage
        shaky = random.Random(seed)
        count = int(self.marks[3] / 0.1) + 2
        self.noise = [shaky.uniform(-noise, noise) for _ in range(count)]
        # Running sums at each step, from the middle of each step.
        self.energy, self.charge = [0.0], [0.0]
        for index in range(int(math.ceil(self.marks[3] / self.STEP)) + 1):
            volts, amperes = self.at((index + 0.5) * self.STEP)
            self.energy.append(self.energy[-1] + volts * amperes * self.STEP)
            self.charge.append(self.charge[-1] + amperes * self.STEP)

    @property
    def end(self):
        return self.marks[3]

    def powered(self, t):
        return not (self.outage and self.outage[0] <= t < self.outage[0] + self.outage[1])

    def at(self, t):
        if not self.powered(t):
            return 0.0, 0.0
        if t < self.marks[0] or t >= self.marks[2]:
            amperes = self.idle_current
        else:
            amperes = self.plateau
            if t >= self.marks[1]:
                # To a tenth of the plateau at the end of the taper.
                amperes *= 0.1 ** ((t - self.marks[1]) / self.taper)
            amperes *= 1 + self.noise[min(int(t / 0.1), len(self.noise) - 1)]
        return self.voltage - 0.08 * amperes, amperes

    def flowed(self, t):
        """Joules and coulombs from the start until a time."""
        place = min(max(t, 0.0) / self.STEP, len(self.energy) - 1.001)
        low, part = int(place), place - int(place)
        return (self.energy[low] + part * (self.energy[low + 1] - self.energy[low]),
                self.charge[low] + part * (self.charge[low + 1] - self.charge[low]))

    def peak(self):
        steps = (self.at((i + 0.5) * self.STEP) for i in range(int(self.end / self.STEP)))
        return max(volts * amperes for volts, amperes in steps)


# --- UM series ----------------------------------------------------------------------------------

UM = {  # id, counts per volt, counts per ampere
    "um24c": (0x0963, 100, 1000),
    "um25c": (0x09C9, 1000, 10000),
    "um34c": (0x0D4C, 100, 1000),
}
UM34C_SUM = (1, 3, 7, 9, 15, 17, 19, 23, 31, 39, 41, 45, 49, 53, 55, 57, 59, 63, 67, 69, 73, 79, 83,
             89, 97, 99, 109, 111, 113, 119, 121, 127)


class UMeter:
    """One data group, whatever is asked for, and no recording."""

    LATENCY = 0.135

    def __init__(self, model, rng):
        self.model, self.rng = model, rng
        self.group, self.screen, self.threshold, self.backlight, self.timeout = 0, 0, 0, 4, 1

    def hear(self, byte):
        """Whether the byte asks for an answer."""
        if byte == 0xF0:
            return "frame"
        if byte == 0xF1:
            self.screen = (self.screen + 1) % 6
        elif byte == 0xF4:
            return "clear"
        elif 0xB0 <= byte <= 0xCE:
            self.threshold = byte - 0xB0
        elif 0xD0 <= byte <= 0xD5:
            self.backlight = byte - 0xD0
        elif 0xE0 <= byte <= 0xE9:
            self.timeout = byte - 0xE0
        return None

    def frame(self, volts, amperes, mah, mwh, spoil):
        ident, per_volt, per_ampere = UM[self.model]
        v, a = int(volts * per_volt + 1e-9), int(amperes * per_ampere + 1e-9)
        milliwatts = v * a * 1000 // (per_volt * per_ampere)
        self.sent = {"voltage": v / per_volt, "current": a / per_ampere, "power": milliwatts / 1e3,
                     "temperature": 25, "d_plus": 0.01, "d_minus": 0}
        tenth_ohms = min(99999, v * per_ampere * 10 // (a * per_volt)) if a else 99999
        self.sent["resistance"] = tenth_ohms / 10
        groups = [0] * 20
        groups[0], groups[1] = mah, mwh
        body = struct.pack(
            ">HHHIHHH20IHHHIIHIHHHIH", ident, v, a, milliwatts, 25, 77, self.group, *groups,
            1, 0, 0, 0, 0, self.threshold, 0, 0, self.timeout, self.backlight, tenth_ohms,
            self.screen)
        if self.model == "um34c":
            body += b"\x80" if a else b"\x6b"
            check = 0
            for place in UM34C_SUM:
                check ^= body[place]
            if spoil:
                check ^= self.rng.randrange(1, 256)
            return body + bytes([check])
        end = 0xFFF1
        if spoil:
            end ^= self.rng.randrange(1, 65536)
        return body + struct.pack(">H", end)


# --- TC66C --------------------------------------------------------------------------------------

class Rijndael:
    """AES-256 forwards with the round tables of the original proposal."""

    def __init__(self, key):
        log, power, value = {}, [], 1
        for exponent in range(255):
            power.append(value)
            log[value] = exponent
            value ^= (value << 1) ^ (0x11B if value & 0x80 else 0)
            value &= 0xFF
        self.sbox = []
        for byte in range(256):
            inverse = power[-log[byte] % 255] if byte else 0
            bits = 0x63
            for turn in range(5):
                bits ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
            self.sbox.append(bits)
        double = [(b << 1 ^ (0x1B if b & 0x80 else 0)) & 0xFF for b in range(256)]
        self.tables = []
        for turn in range(4):
            table = []
            for byte in range(256):
                s = self.sbox[byte]
                word = double[s] << 24 | s << 16 | s << 8 | (double[s] ^ s)
                table.append((word >> 8 * turn | word << 32 - 8 * turn) & 0xFFFFFFFF)
            self.tables.append(table)
        words = list(struct.unpack(">8I", key))
        constant = 1
        while len(words) < 60:
            word = words[-1]
            if len(words) % 8 == 0:
                word = self.substitute((word << 8 | word >> 24) & 0xFFFFFFFF) ^ constant << 24
                constant = double[constant]
            elif len(words) % 8 == 4:
                word = self.substitute(word)
            words.append(words[-8] ^ word)
        self.keys = words

    def substitute(self, word):
        return sum(self.sbox[word >> shift & 0xFF] << shift for shift in (24, 16, 8, 0))

    def block(self, plain):
        state = [w ^ k for w, k in zip(struct.unpack(">4I", plain), self.keys)]
        for number in range(1, 14):
            state = [
                self.tables[0][state[c] >> 24] ^ self.tables[1][state[(c + 1) % 4] >> 16 & 0xFF]
                ^ self.tables[2][state[(c + 2) % 4] >> 8 & 0xFF]
                ^ self.tables[3][state[(c + 3) % 4] & 0xFF] ^ self.keys[4 * number + c]
                for c in range(4)]
        last = [
            self.substitute(
                state[c] & 0xFF000000 | state[(c + 1) % 4] & 0xFF0000
                | state[(c + 2) % 4] & 0xFF00 | state[(c + 3) % 4] & 0xFF) ^ self.keys[56 + c]
            for c in range(4)]
        return struct.pack(">4I", *last)

    def encrypt(self, plain):
        return b"".join(self.block(plain[i:i + 16]) for i in range(0, len(plain), 16))


def crc16(data):
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


class TCMeter:
    LATENCY = 0.03
    KEY = bytes.fromhex("5821fa5601b2f02687ff1204622a4fb086f40260816f9a0ba7f106619ab87288")
    CIPHER = Rijndael(KEY)

    def __init__(self, model, rng):
        self.rng = rng
        self.heard = b""

    def hear(self, byte):
        self.heard = (self.heard + bytes([byte]))[-5:]
        if self.heard == b"getva":
            self.heard = b""
            return "frame"
        if self.heard == b"query":
            self.heard = b""
            return "firm"
        return None

    def frame(self, volts, amperes, mah, mwh, spoil):
        v, a = int(volts * 1e4 + 1e-6), int(amperes * 1e5 + 1e-6)
        ohms = min(99999, v * 100 // a) if a else 99999
        self.sent = {"voltage": v / 1e4, "current": a / 1e5, "power": v * a // 100000 / 1e4,
                     "temperature": 25, "d_plus": 0.01, "d_minus": 0, "resistance": ohms / 10}
        first = struct.pack("<4s4s4sI28sIIII", b"pac1", b"TC66", b"1.18", 1234567, b"\x5a" * 28, 7,
                            v, a, v * a // 100000)
        second = struct.pack("<4s9I20x", b"pac2", ohms, mah, mwh, 0, 0, 0, 25, 1, 0)
        blocks = [first, second, b"pac3" + bytes(56)]
        wrong = self.rng.randrange(3) if spoil else None
        plain = b""
        for index, block in enumerate(blocks):
            assert len(block) == 60
            crc = crc16(block)
            if index == wrong:
                crc ^= self.rng.randrange(1, 65536)
            plain += block + struct.pack("<I", crc)
        return self.CIPHER.encrypt(plain)


# --- The terminal -------------------------------------------------------------------------------

class Terminal:
    """A raw pseudo-terminal under a name of our choice."""

    def __init__(self, link):
        self.link, self.master, self.slave = link, None, None

    def appear(self):
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        # The slave stays open here, since without any opener reads of the master fail.
        os.set_blocking(self.master, False)
        temporary = f"{self.link}.{os.getpid()}"
        os.symlink(os.ttyname(self.slave), temporary)
        os.replace(temporary, self.link)

    def vanish(self):
        if self.master is None:
            return
        try:
            os.unlink(self.link)
        except FileNotFoundError:
            pass
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = None

    def read(self, seconds):
        """What arrives within some seconds; nothing if nothing does or there is no terminal."""
        if self.master is None:
            time.sleep(min(seconds, 0.05))
            return b""
        if not select.select([self.master], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self.master, 4096)
        except (BlockingIOError, OSError):
            return b""

    def write(self, data):
        if self.master is not None:
            try:
                os.write(self.master, data)
            except (BlockingIOError, OSError):
                pass  # nobody reads: a serial line loses it


# --- The play -----------------------------------------------------------------------------------

class Bench:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        maker = TCMeter if options.model == "tc66c" else UMeter
        self.meter = maker(options.model, self.rng)
        self.charge = Charge(*options.profile, options.voltage, options.idle_current, options.noise,
                             options.power_loss, options.seed)
        self.terminal = Terminal(options.link)
        self.records, self.counts, self.losses = [], {}, 0
        # Joules and coulombs at which the shown counters stand at zero.
        self.base = (0.0, 0.0)
        # After a power loss an UM meter shows the old counts until over 1 mAh has flowed anew.
        self.held = None
        self.pending = []  # (due, data)
        self.free_at = 0.0
        self.ended = False

    def run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "ended", True))
        self.terminal.appear()
        self.started_wall, self.started = time.time(), time.monotonic()
        print("ready", flush=True)
        on = True
        try:
            while not self.ended:
                t = self.now()
                if t >= self.charge.end:
                    break
                if on != self.charge.powered(t):
                    on = not on
                    self.switch(on, t)
                self.pump(t)
        finally:
            self.terminal.vanish()
            self.save()

    def now(self):
        return time.monotonic() - self.started

    def switch(self, on, t):
        if on:
            if self.options.model != "tc66c":
                flowed = self.charge.flowed(t)
                self.held = (self.shown(t), flowed)
            if self.options.power_loss_as == "vanishing":
                self.terminal.appear()
        else:
            self.losses += 1
            self.pending.clear()
            if self.options.power_loss_as == "vanishing":
                self.terminal.vanish()

    def shown(self, t):
        """The counters of group 0 in whole mAh and mWh, cut off."""
        energy, charge = self.charge.flowed(t)
        if self.held:
            old, since = self.held
            if charge - since[1] <= 3.6:
                return old
            self.base, self.held = since, None
        return int((charge - self.base[1]) / 3.6), int((energy - self.base[0]) / 3.6)

    def pump(self, t):
        while self.pending and self.pending[0][0] <= t:
            self.terminal.write(self.pending.pop(0)[1])
        wait = 0.05
        if self.pending:
            wait = min(wait, max(0.0, self.pending[0][0] - t))
        heard = self.terminal.read(wait)
        if not self.charge.powered(self.now()):
            return  # what was asked meanwhile is not answered later either
        for byte in heard:
            wanted = self.meter.hear(byte)
            if wanted == "frame":
                self.answer(self.now())
            elif wanted == "firm":
                self.pending.append((self.now() + self.meter.LATENCY, b"firm"))
            elif wanted == "clear":
                self.base, self.held = self.charge.flowed(self.now()), None

    def answer(self, t):
        # Renewed twice a second.
        volts, amperes = self.charge.at(math.floor(t * 2) / 2)
        if volts == 0.0:
            volts, amperes = self.charge.at(t)
        energy, charge = self.charge.flowed(t)
        mah, mwh = self.shown(t)
        calm = self.options.power_loss and 0 <= t - sum(self.options.power_loss) < 3
        faults = [name for name in FAULTS if not calm
                  and name in self.options.faults and self.rng.random() < self.options.fault_rate]
        data = self.meter.frame(volts, amperes, mah, mwh, "badcheck" in faults)
        if "flip" in faults:
            spoilt = bytearray(data)
            for place in self.rng.sample(range(8 * len(data)), self.options.flips):
                spoilt[place // 8] ^= 1 << place % 8
            data = bytes(spoilt)
        if "cut" in faults:
            data = data[:self.rng.randrange(1, len(data))]
        if "stray" in faults:
            data = self.rng.randbytes(self.options.stray) + data
        pieces = [data]
        if "split" in faults:
            cuts = sorted(self.rng.sample(range(1, len(data)), min(3, len(data) - 1)))
            pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
        due = max(t, self.free_at) + self.meter.LATENCY
        for piece in pieces:
            self.pending.append((due, piece))
            due += 0.03
        self.free_at = due - 0.03
        for name in faults:
            self.counts[name] = self.counts.get(name, 0) + 1
        self.records.append({
            "type": "frame", "wall": round(self.started_wall + t, 6), "t": round(t, 6),
            "voltage": volts, "current": amperes, "power": volts * amperes,
            "energy_wh": energy / 3600, "charge_mah": charge / 3.6, "shown_mwh": mwh,
            "shown_mah": mah, "sent": self.meter.sent, "faults": faults})

    def save(self):
        end = min(self.now(), self.charge.end)
        energy, charge = self.charge.flowed(end)
        low, high = min(end, self.charge.marks[0]), min(end, self.charge.marks[2])
        before, after = self.charge.flowed(low), self.charge.flowed(high)
        self.records.append({
            "type": "summary", "model": self.options.model, "seed": self.options.seed,
            "start": round(self.started_wall, 6), "end": round(self.started_wall + end, 6),
            "charge_start": round(self.started_wall + low, 6),
            "charge_end": round(self.started_wall + high, 6),
            "energy_wh": energy / 3600, "charge_mah": charge / 3.6,
            "charge_energy_wh": (after[0] - before[0]) / 3600,
            "charge_charge_mah": (after[1] - before[1]) / 3.6,
            "peak_power": self.charge.peak(),
            "frames": len(self.records),
            "clean_frames": sum(not set(r["faults"]) - {"split"} for r in self.records),
            "faults": self.counts, "power_losses": self.losses})
        if self.options.truth:
            temporary = f"{self.options.truth}.{os.getpid()}"
            with open(temporary, "w", encoding="utf-8") as file:
                for record in self.records:
                    file.write(json.dumps(record) + "\n")
            os.replace(temporary, self.options.truth)
        print(json.dumps(self.records[-1]), flush=True)


# --- Command line -------------------------------------------------------------------------------

def numbers(count):
    def parse(text):
        values = tuple(float(part) for part in text.split(","))
        if len(values) != count or min(values) < 0:
            raise argparse.ArgumentTypeError(f"{count} numbers with commas between them")
        return values
    return parse


def fault_list(text):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"no fault '{name}'; there are {', '.join(FAULTS)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=[*UM, "tc66c"], default="um25c")
    parser.add_argument("--link", required=True, help="where the terminal appears, a symbolic link")
    parser.add_argument("--profile", type=numbers(5), default=(5.0, 1.2, 40.0, 10.0, 10.0),
                        metavar="IDLE,AMPERES,DURATION,TAPER,IDLE",
                        help="seconds, and the current in between")
    parser.add_argument("--voltage", type=float, default=5.15, help="without load")
    parser.add_argument("--idle-current", type=float, default=0.0, help="amperes")
    parser.add_argument("--noise", type=float, default=0.02, help="part of the current")
    parser.add_argument("--faults", type=fault_list, default=[], metavar="NAME,...",
                        help="of " + ", ".join(FAULTS))
    parser.add_argument("--fault-rate", type=float, default=0.1, help="of each fault for each answer")
    parser.add_argument("--flips", type=int, default=1, help="bits for each flip")
    parser.add_argument("--stray", type=int, default=37, help="bytes for each stray")
    parser.add_argument("--power-loss", type=numbers(2), metavar="AT,FOR", help="seconds")
    parser.add_argument("--power-loss-as", choices=["vanishing", "silence"], default="vanishing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--truth", help="file to write at the end")
    options = parser.parse_args()
    if options.profile[3] == 0:
        parser.error("the taper needs some time")
    Bench(options).run()


if __name__ == "__main__":
    main()
