"""A meter reader of a few lines that shares nothing with the program under test.

It proves that the virtual machine, its radios and its meters do what they are there for, so that a
failing test can be blamed on the program.
"""
import struct
import time

from bench import ADAPTER, Air, shown
from harness import test
from kernel import (
    BONDABLE, BREDR, LE, PIN_REQUEST, POWERED, Attribute, Management, Refused, serial_link)

AES_KEY = "5821fa5601b2f02687ff1204622a4fb086f40260816f9a0ba7f106619ab87288"
WRAPPED = bytes.fromhex("ff551103f00000000040")
# question, size of the answer, where to write it, whether as a request, where the answer comes from
WAYS = {
    "um25c": (b"\xf0", 130, 0xFFE1, False, 0xFFE1),
    "a3b": (WRAPPED, 130, 0xFFE1, True, 0xFFE1),
    "tc66c-old": (b"bgetva\r\n", 192, 0xFFE9, True, 0xFFE4),
    "tc66c-new": (b"bgetva\r\n", 192, 0xFFE2, False, 0xFFE1),
}


def values(kind, data):
    """Volts and amperes in an answer."""
    if kind.startswith("tc66c"):
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        cipher = Cipher(algorithms.AES(bytes.fromhex(AES_KEY)), modes.ECB()).decryptor()
        volts, amperes = struct.unpack_from("<II", cipher.update(data), 48)
        return volts / 10000, amperes / 100000
    volts, amperes = struct.unpack_from(">HH", data, 2)
    scale = (1000, 10000) if kind.startswith("um25c") else (100, 1000)
    return volts / scale[0], amperes / scale[1]


def told(air: Air, meter, reading):
    """Whether the meter's newest frame said that."""
    frame = air.last(meter["name"], "frame")
    return frame and shown(frame) == shown(dict(voltage=reading[0], current=reading[1]))


def read_le(air, meter, times=3):
    """Connects, reads a few times, and gives the link that it read through, or an error."""
    question, size, target, response, source = WAYS[meter["kind"]]
    link = Attribute(ADAPTER, meter["address"])
    try:
        answer = link.request(struct.pack("<BH", 2, 247))
        meter["mtu"] = struct.unpack_from("<H", answer, 1)[0]
        offered = link.characteristics()
        meter["subscribed"] = link.subscribe(offered[source][0])
        good = 0
        for _ in range(times):
            link.write(offered[target][0], question, response)
            data = link.collect(size, 3)
            good += len(data) == size and bool(told(air, meter, values(meter["kind"], data)))
        meter["good"], meter["offered"] = good, offered
        return link
    except BaseException:
        link.close()
        raise


def try_classic(mgmt, address, channel, pin):
    """Connects while answering PIN requests in between; the socket, or the error."""
    import threading
    result = []

    def connect():
        try:
            result.append(serial_link(ADAPTER, address, channel))
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    while thread.is_alive():
        event = mgmt.receive(0.1)
        if event and event[0] == PIN_REQUEST:
            mgmt.reply_pin(event, pin)
    return result[0]


@test(150)
def the_machine_itself(scene):
    """Not about the program: the radios, the meters and their faults, as a stranger sees them."""
    air, check = scene.air, scene.report.check
    meters = scene.populate([
        dict(name="shelf", kind="um25c"), dict(name="clone", kind="a3b"),
        dict(name="old", kind="tc66c-old"), dict(name="new", kind="tc66c-new"),
        dict(name="odd", kind="um25c", faults=["cccd"]),
        dict(name="bare", kind="um25c", faults=["bare"]),
        dict(name="mute", kind="um25c", faults=["silent"]),
        dict(name="half", kind="um25c", faults=["half"]),
        dict(name="band", kind="band"), dict(name="desk", kind="um34c-spp"),
        dict(name="closed", kind="um34c-spp", pin="8765")])
    scene.unplug()
    scene.plug(slots=12)
    mgmt = Management()
    index = scene.index
    for what in (LE, BREDR, BONDABLE, POWERED):
        try:
            mgmt.set(what, index, True)
        except Refused:
            pass  # is so already
    check(mgmt.powered(index), "the adapter can be switched on")

    found = mgmt.discover(index, 12)
    for meter in meters.values():
        seen = found.get(meter["address"], {})
        check(seen.get("name") == meter["advertised"], f"discovery finds {meter['name']} as "
              f"{meter['advertised']}", str(seen))

    links = []
    for name, properties in (("shelf", 23), ("clone", 23), ("old", 23), ("new", 23), ("odd", 23)):
        meter = meters[name]
        links.append(read_le(air, meter))
        check(meter["good"] == 3 and meter["mtu"] == properties,
              f"{name} answers with what is in its journal", f"{meter}")
        check(meter["subscribed"] == (name != "odd"), f"{name} takes or refuses its subscription")
    check(len(mgmt.connections(index)) == 5, "five links at once",
          str(mgmt.connections(index)))
    refused = links[3].write(meters["new"]["offered"][0xFFE2][0], b"bgetva\r\n", True)
    check(not refused, "a new TC66C refuses a write request")
    link = Attribute(ADAPTER, meters["bare"]["address"])
    check(0xFFE1 not in link.characteristics(), "one has no characteristic to talk to")
    link.close()
    for name, size in (("mute", 0), ("half", 65)):
        link = Attribute(ADAPTER, meters[name]["address"])
        offered = link.characteristics()
        link.subscribe(offered[0xFFE1][0])
        link.write(offered[0xFFE1][0], b"\xf0", False)
        check(len(link.collect(130, 1.5)) == size, f"{name} answers {size} bytes and no more")
        link.close()

    serial = try_classic(mgmt, meters["desk"]["address"], 1, "1234")
    if check(not isinstance(serial, OSError), "Classic connects with PIN 1234", repr(serial)):
        serial.send(b"\xf0")
        data = b""
        while len(data) < 130:
            data += serial.recv(200)
        check(told(air, meters["desk"], values("um34c", data)), "and answers the truth")
        serial.close()
    refusal = try_classic(mgmt, meters["closed"]["address"], 1, "1234")
    check(isinstance(refusal, OSError) and air.last("closed", "not authenticated"),
          "another refuses that PIN", repr(refusal))

    air.do("vanish", meter="shelf", seconds=2)
    begun = time.monotonic()
    try:
        while links[0].receive(8) is not None:
            pass
        ended = False
    except OSError:
        ended = True
    check(ended and time.monotonic() - begun < 8, "a meter that loses power loses its link")
    links[0].close()
    link = read_le(air, meters["shelf"], times=1)
    check(meters["shelf"]["good"] == 1, "and is there again with it")
    link.close()

    air.do("hold", meter="clone")
    time.sleep(2.5)
    try:
        Attribute(ADAPTER, meters["clone"]["address"], 2).close()
        held = False
    except (OSError, TimeoutError):
        held = True
    check(held, "a meter that another radio holds is not to be had")
    air.do("release", meter="clone")
    links[1].close()
    link = read_le(air, meters["clone"], times=1)
    check(meters["clone"]["good"] == 1, "and is to be had again afterwards")
    for other in (link, *links[2:]):
        other.close()
    check(not air.journal("band", "connected"), "nobody has connected to the pulse band")
    time.sleep(2.5)
    check(wait_empty(mgmt, index), "all links are gone at the end", str(mgmt.connections(index)))

    mgmt.set(POWERED, index, False)
    mgmt.set(POWERED, index, True)
    check(mgmt.powered(index), "the adapter can be switched off and on")
    scene.replug_elsewhere()
    check(mgmt.address(scene.index) == ADAPTER and scene.index != index,
          "it can be removed and added under another number", f"{index} and {scene.index}")
    mgmt.close()


def wait_empty(mgmt, index):
    end = time.monotonic() + 5
    while mgmt.connections(index) and time.monotonic() < end:
        time.sleep(0.2)
    return not mgmt.connections(index)
