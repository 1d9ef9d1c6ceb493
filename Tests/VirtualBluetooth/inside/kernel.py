"""The kernel's Bluetooth through raw sockets: management commands, ATT, RFCOMM.

For what a test does to the machine itself, and for the probe that proves the machine. Python's own
socket module knows neither the management channel nor the fixed channels of L2CAP.
"""
import ctypes
import errno
import os
import select
import socket
import struct
import time

AF_BLUETOOTH, BTPROTO_L2CAP, BTPROTO_HCI = 31, 0, 1
LIBC = ctypes.CDLL(None, use_errno=True)

# What Set Powered and its sisters call them.
POWERED, BONDABLE, CONNECTABLE, LE, BREDR = 0x0005, 0x0009, 0x0007, 0x000D, 0x002A
COMPLETE, STATUS, DISCONNECTED, PIN_REQUEST, DEVICE_FOUND = 0x0001, 0x0002, 0x000C, 0x000E, 0x0012


def call(function, descriptor, address):
    if function(descriptor, address, len(address)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def packed(address):
    return bytes.fromhex(address.replace(":", ""))[::-1]


def readable(six):
    return ":".join(f"{byte:02X}" for byte in six[::-1])


def names(data):
    """The types and values in advertising data."""
    while len(data) > 1 and data[0] and len(data) > data[0]:
        yield data[1], data[2:data[0] + 1]
        data = data[data[0] + 1:]


class Refused(Exception):
    """A management command with its status."""


class Management:
    """One trusted socket; events that nobody waits for are kept."""

    def __init__(self):
        self.socket = socket.socket(AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, BTPROTO_HCI)
        call(LIBC.bind, self.socket.fileno(), struct.pack("<HHH", AF_BLUETOOTH, 0xFFFF, 3))
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def receive(self, seconds):
        """The next event as (code, index, parameters), or None."""
        if not select.select([self.socket], [], [], max(0.0, seconds))[0]:
            return None
        data = self.socket.recv(4096)
        code, index, length = struct.unpack_from("<HHH", data)
        return code, index, data[6:6 + length]

    def command(self, opcode, index, parameters=b"", seconds=10):
        self.socket.send(struct.pack("<HHH", opcode, index, len(parameters)) + parameters)
        end = time.monotonic() + seconds
        while event := self.receive(end - time.monotonic()):
            code, at, data = event
            if code in (COMPLETE, STATUS) and at == index:
                answered, status = struct.unpack_from("<HB", data)
                if answered == opcode:
                    if status:
                        raise Refused(f"command {opcode:#06x} of hci{index}: status {status:#04x}")
                    return data[3:]
            self.events.append(event)
        raise TimeoutError(f"command {opcode:#06x} of hci{index}: no answer in {seconds} s")

    def set(self, opcode, index, on):
        return self.command(opcode, index, bytes([on]))

    def indices(self):
        data = self.command(0x0003, 0xFFFF)
        return list(struct.unpack_from(f"<{len(data) // 2 - 1}H", data, 2))

    def powered(self, index):
        return bool(struct.unpack_from("<I", self.command(0x0004, index), 13)[0] & 1)

    def address(self, index):
        return readable(self.command(0x0004, index)[:6])

    def connections(self, index):
        data = self.command(0x0015, index)
        return [readable(data[2 + 7 * i:8 + 7 * i]) for i in range(struct.unpack("<H", data[:2])[0])]

    def reply_pin(self, event, pin):
        _, index, data = event
        answer = data[:7] + (bytes([len(pin)]) + pin.encode().ljust(16, b"\0") if pin else b"")
        self.command(0x0016 if pin else 0x0017, index, answer)

    def discover(self, index, seconds, kinds=7):
        """What is heard, as {address: {"name", "services", "kind", "rssi"}}."""
        found = {}
        end = time.monotonic() + seconds
        self.command(0x0023, index, bytes([kinds]))
        while (left := end - time.monotonic()) > 0:
            event = self.events.pop(0) if self.events else self.receive(left)
            if event is None:
                break
            code, _, data = event
            if code == 0x0013 and not data[1]:
                self.command(0x0023, index, bytes([kinds]))
            if code != DEVICE_FOUND:
                continue
            device = found.setdefault(readable(data[:6]), {"name": None, "services": set()})
            device["kind"], device["rssi"] = data[6], struct.unpack_from("b", data, 7)[0]
            if struct.unpack_from("<I", data, 8)[0] & 1:
                # The kernel asks a Classic device for its name only if told to.
                self.command(0x0025, index, data[:7] + b"\0")
            for kind, value in names(data[14:]):
                if kind in (8, 9):
                    device["name"] = value.decode(errors="replace")
                if kind in (2, 3):
                    device["services"] |= set(struct.unpack(f"<{len(value) // 2}H", value))
        try:
            self.command(0x0024, index, bytes([kinds]))
        except Refused:
            pass  # it has just ended by itself
        return found


class Attribute:
    """An ATT link to an LE device, one request at a time."""

    def __init__(self, adapter, address, seconds=10):
        self.socket = socket.socket(
            AF_BLUETOOTH, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC, BTPROTO_L2CAP)
        self.notified = b""
        try:
            self.bind_and_connect(adapter, address, seconds)
        except BaseException:
            self.socket.close()
            raise

    def bind_and_connect(self, adapter, address, seconds):
        number = self.socket.fileno()
        form = "<HH6sHBx"
        call(LIBC.bind, number, struct.pack(form, AF_BLUETOOTH, 0, packed(adapter), 4, 1))
        self.socket.setblocking(False)
        try:
            call(LIBC.connect, number, struct.pack(form, AF_BLUETOOTH, 0, packed(address), 4, 1))
        except OSError as error:
            if error.errno != errno.EINPROGRESS:
                raise
        if not select.select([], [self.socket], [], seconds)[1]:
            raise TimeoutError(f"{address}: not connected after {seconds} s")
        if code := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))

    def close(self):
        self.socket.close()

    def receive(self, seconds):
        if not select.select([self.socket], [], [], max(0.0, seconds))[0]:
            return None
        data = self.socket.recv(1024)
        if not data:
            raise ConnectionResetError("the link has ended")
        if data[0] == 0x1B:
            self.notified += data[3:]
        return data

    def request(self, data, seconds=5):
        self.socket.send(data)
        end = time.monotonic() + seconds
        while answer := self.receive(end - time.monotonic()):
            if answer[0] == data[0] + 1 or answer[0] == 1 and answer[1] == data[0]:
                return answer
        raise TimeoutError("no answer to an ATT request")

    def characteristics(self):
        """{uuid: (value handle, properties)} of those with 16-bit numbers."""
        found, start = {}, 1
        while True:
            answer = self.request(struct.pack("<BHHH", 0x08, start, 0xFFFF, 0x2803))
            if answer[0] == 1:
                return found
            size = answer[1]
            for place in range(2, len(answer) - size + 1, size):
                handle, properties, value, number = struct.unpack_from("<HBHH", answer, place)
                if size == 7:
                    found[number] = value, properties
                start = handle + 1

    def subscribe(self, value):
        """Whether the peer accepts it."""
        return self.request(struct.pack("<BHH", 0x12, value + 1, 1))[0] == 0x13

    def write(self, value, data, response):
        if response:
            return self.request(struct.pack("<BH", 0x12, value) + data)[0] == 0x13
        self.socket.send(struct.pack("<BH", 0x52, value) + data)
        return True

    def collect(self, size, seconds):
        """The next so many bytes of notifications, or as many as there were in time."""
        end = time.monotonic() + seconds
        while len(self.notified) < size and self.receive(end - time.monotonic()):
            pass
        data, self.notified = self.notified[:size], self.notified[size:]
        return data


def serial_link(adapter, address, channel, seconds=15):
    """An RFCOMM socket."""
    link = socket.socket(AF_BLUETOOTH, socket.SOCK_STREAM, socket.BTPROTO_RFCOMM)
    try:
        link.bind((adapter, 0))
        link.settimeout(seconds)
        link.connect((address, channel))
    except BaseException:
        link.close()
        raise
    return link


def load_modules(folder="/run/modules"):
    for name in sorted(os.listdir(folder)):
        with open(f"{folder}/{name}", "rb") as file:
            # finit_module
            if LIBC.syscall(313, file.fileno(), b"", 0) < 0:
                code = ctypes.get_errno()
                if code != errno.EEXIST:
                    raise OSError(code, f"{name}: {os.strerror(code)}")


class Monitor:
    """Listens to all management commands that any process sends to the kernel."""

    def __init__(self):
        self.socket = socket.socket(AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, BTPROTO_HCI)
        call(LIBC.bind, self.socket.fileno(), struct.pack("<HHH", AF_BLUETOOTH, 0xFFFF, 2))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setblocking(False)
        # The sockets that existed before are of others.
        self.others = {cookie for kind, cookie, _ in self.read() if kind == 0x000E}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read(self):
        while True:
            try:
                packet = self.socket.recv(4096)
            except BlockingIOError:
                return
            kind = struct.unpack_from("<H", packet)[0]
            if kind in (0x000E, 0x0010):
                yield kind, struct.unpack_from("<I", packet, 6)[0], packet[10:]

    def commands(self):
        """The commands of sockets that were opened later, as (opcode, parameters)."""
        return [(struct.unpack_from("<H", data)[0], data[2:]) for kind, cookie, data in self.read()
                if kind == 0x0010 and cookie not in self.others]
