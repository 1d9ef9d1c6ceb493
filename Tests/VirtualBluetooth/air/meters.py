"""Meters for the emulated radios: what they advertise, how they are asked, and what they answer.

The frames are those of Tests/bench/meter.py, which shares nothing with the program under test.
Every answer differs from all others of the last minutes, so that what the program publishes can be
traced to the very frame that it came from.
"""
import asyncio
import math
import random
import struct
import time

import meter as bench
from bumble import att, rfcomm
from bumble.core import AdvertisingData, UUID
from bumble.device import Device, DeviceConfiguration
from bumble.gatt import (
    Characteristic, CharacteristicValue, Descriptor,
    GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR, Service)
from bumble.hci import OwnAddressType
from bumble.host import Host

from radio import Adapter, Module, public

P = Characteristic.Properties
SERIAL_PORT = UUID.from_16_bits(0x1101)
ADVERTISING_MS = 200

# name in the air, meter, services to advertise, seconds until it answers
KINDS = {
    "um24c": ("UM24C", "um24c", [0xFFE0], 0.135),
    "um25c": ("UM25C", "um25c", [0xFFE0], 0.135),
    "um34c": ("UM34C", "um34c", [0xFFE0], 0.135),
    "a3b": ("UM24C", "um24c", [0xFFE0], 0.135),
    "tc66c-old": ("TC66C", "tc66c", [0xFFE0], 0.4),
    "tc66c-new": ("BT24-M", "tc66c", [0xFFE0], 0.3),
    "um34c-spp": ("UM34C", "um34c", None, 0.135),
    "um25c-spp": ("UM25C", "um25c", None, 0.135),
    # Not meters: they must be left alone, although the second offers a meter's very service.
    "band": ("Pulse Band 3", None, [0x180D], 0.0),
    "tag": ("iTAG", None, [0xFFE0], 0.0),
}


class Load:
    """What flows, in the meter's own steps, and how much it has been."""

    STEPS = {"um24c": (100, 1000), "um25c": (1000, 10000), "um34c": (100, 1000),
             "tc66c": (10000, 100000)}

    def __init__(self, model, volts, amperes):
        self.per_volt, self.per_ampere = self.STEPS[model]
        self.volts, self.amperes = volts, amperes
        self.count = 0
        self.shown = None
        self.energy = self.charge = 0.0
        self.since = time.monotonic()

    def flow(self):
        now = time.monotonic()
        if self.shown:
            volts, amperes = self.shown
            self.energy += volts * amperes * (now - self.since)
            self.charge += amperes * (now - self.since)
        self.since = now

    def sample(self):
        """The next voltage and current."""
        self.flow()
        self.count += 1
        volts = round(self.volts * self.per_volt) + self.count % 7
        amperes = round(self.amperes * self.per_ampere)
        if amperes:
            amperes += self.count % 97
        self.shown = volts / self.per_volt, amperes / self.per_ampere
        return self.shown


class Meter:
    """A device of one of the KINDS with a module of its own.

    options: name, kind, address; rssi, volts, amperes, pin (None: not asked for), channel, sdp,
    mtu; faults, a list of
      cccd      refuses to be subscribed to, and notifies all the same (from the start only)
      bare      has its service, but not its characteristic (from the start only)
      silent    answers nothing
      half      answers half a frame once, then nothing until the next link
      hang-up   ends every link at once
    """

    def __init__(self, air, options):
        self.air, self.name, self.kind = air, options["name"], options["kind"]
        self.advertised, model, self.services, self.latency = KINDS[self.kind]
        self.faults = set(options.get("faults", []))
        self.classic = self.services is None
        self.pin = options.get("pin", "1234" if self.classic else None)
        self.channel = options.get("channel", 1)
        self.sdp = options.get("sdp", True)
        self.mtu = options.get("mtu", 23)
        self.address = public(options["address"])
        self.on, self.mute = True, False
        self.connection = self.holder = None
        self.tasks = set()
        rng = random.Random(self.name)
        self.load = self.frames = None
        if model:
            self.load = Load(model, options.get("volts", 5.0), options.get("amperes", 1.0))
            self.frames = (bench.TCMeter if model == "tc66c" else bench.UMeter)(model, rng)
        self.module = Module(self.name, air.ether, self.address, self.classic,
                             options.get("rssi", -60), self.pin)
        self.heard = b""

    def journal(self, **what):
        self.air.journal(self.name, **what)

    # --- Life -----------------------------------------------------------------------------------

    async def start(self):
        host = Host()
        host.controller = self.module
        if self.classic:
            self.device = Device(config=DeviceConfiguration(
                name=self.advertised, address=self.address, classic_enabled=True, le_enabled=False,
                classic_ssp_enabled=False, classic_sc_enabled=False), host=host)
            server = rfcomm.Server(self.device)
            server.listen(self.accepted, self.channel)
            if self.sdp:
                self.device.sdp_service_records = {
                    0x00010001: rfcomm.make_service_sdp_records(
                        0x00010001, self.channel, SERIAL_PORT)}
        else:
            self.device = Device(name=self.advertised, address=self.address, host=host)
            self.build()
        self.device.on("connection", self.connected)
        await self.device.power_on()
        await self.appear()

    async def appear(self):
        """Is there for everybody who looks."""
        self.on = self.module.powered = True
        self.journal(event="appears")
        if self.classic:
            await self.device.set_discoverable(True)
            await self.device.set_connectable(True)
        elif self.connection is None:
            await self.advertise()

    async def advertise(self):
        data = AdvertisingData([
            (AdvertisingData.FLAGS, b"\x06"),
            (AdvertisingData.INCOMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS,
             b"".join(struct.pack("<H", service) for service in self.services))])
        # As many modules do: the name comes only with the answer to a scan request.
        name = AdvertisingData([(AdvertisingData.COMPLETE_LOCAL_NAME, self.advertised.encode())])
        await self.device.start_advertising(
            own_address_type=OwnAddressType.PUBLIC, advertising_interval_min=ADVERTISING_MS * 0.625,
            advertising_interval_max=ADVERTISING_MS * 0.625, advertising_data=bytes(data),
            scan_response_data=bytes(name))
        self.journal(event="advertising")

    def vanish(self):
        """Without power from now on."""
        self.on = False
        self.journal(event="vanishes")
        self.module.fall_silent()
        if self.load:
            self.load.flow()
            self.load.shown = None

    def spawn(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.finished)

    def finished(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.journal(event="error", error=repr(error))

    def stop(self):
        for task in list(self.tasks):
            task.cancel()
        self.vanish()
        if self.holder:
            self.air.ether.remove_controller(self.holder.host.controller)
        self.air.ether.remove_controller(self.module)

    # --- Links ----------------------------------------------------------------------------------

    def connected(self, connection):
        self.connection, self.heard, self.mute = connection, b"", False
        self.journal(event="connected", by=str(connection.peer_address))
        connection.on("disconnection", self.disconnected)
        if "hang-up" in self.faults:
            self.spawn(self.drop())

    def disconnected(self, reason):
        self.connection = None
        self.journal(event="disconnected", reason=int(reason))
        if self.on and not self.classic:
            self.spawn(self.advertise())

    async def drop(self):
        """Ends the link, as a device may that has lost interest."""
        if self.connection:
            await self.connection.disconnect()

    async def hold(self):
        """A phone takes the meter: a second radio, of which the program under test knows nothing."""
        await self.drop()
        if self.classic:
            self.module.held = True
        else:
            number = self.address.to_string(False)[-2:]
            phone = Adapter("phone", self.air.ether, public(f"F0:0F:00:00:00:{number}"), 7,
                            self.air.journal)
            host = Host()
            host.controller = phone
            self.holder = Device(name="phone", address=phone.public_address, host=host)
            await self.holder.power_on()
            self.held_link = await self.holder.connect(
                self.address, own_address_type=OwnAddressType.PUBLIC)
        self.journal(event="held")

    async def release(self):
        self.journal(event="released")
        self.module.held = False
        if self.holder:
            await self.held_link.disconnect()
            self.air.ether.remove_controller(self.holder.host.controller)
            self.holder = None

    # --- GATT -----------------------------------------------------------------------------------

    def build(self):
        kind = self.kind
        if kind == "band":
            self.notifier = self.characteristic(0x2A37, P.NOTIFY)
            services = [(0x180D, [self.notifier])]
        elif kind == "tc66c-old":
            self.notifier = self.characteristic(0xFFE4, P.NOTIFY)
            services = [(0xFFE0, [self.notifier]), (0xFFE5, [self.characteristic(0xFFE9, P.WRITE)])]
        elif kind == "tc66c-new":
            self.notifier = self.characteristic(0xFFE1, P.NOTIFY)
            services = [(0xFFE0, [
                self.notifier, self.characteristic(0xFFE2, P.WRITE_WITHOUT_RESPONSE)])]
        else:
            both = P.READ | P.WRITE | P.WRITE_WITHOUT_RESPONSE | P.NOTIFY
            self.notifier = self.characteristic(0xFFE1, both)
            services = [(0xFFE0, [self.notifier])]
        if "bare" in self.faults:
            services = [(0xFFE0, [self.characteristic(0xFFE7, P.READ)])]
        # Something that every module has, and that is not what is looked for.
        self.device.add_service(Service(UUID.from_16_bits(0x180A), [Characteristic(
            UUID.from_16_bits(0x2A29), P.READ, Characteristic.READABLE, b"Module Works")]))
        for service, characteristics in services:
            self.device.add_service(Service(UUID.from_16_bits(service), characteristics))
        server = self.device.gatt_server
        server.max_mtu = self.mtu
        self.request, self.command = server.on_att_write_request, server.on_att_write_command
        server.on_att_write_request = self.write_request
        server.on_att_write_command = self.write_command
        server.on("characteristic_subscription", self.subscribed)

    def characteristic(self, number, properties):
        descriptors = []
        if properties & P.NOTIFY and "cccd" in self.faults:
            descriptors = [Descriptor(
                GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR,
                Descriptor.READABLE | Descriptor.WRITEABLE,
                CharacteristicValue(read=lambda _: b"\0\0", write=self.refuse_subscription))]
        return Characteristic(
            UUID.from_16_bits(number), properties,
            Characteristic.READABLE | Characteristic.WRITEABLE,
            CharacteristicValue(read=lambda _: b"", write=lambda _, data: self.hear(data)),
            descriptors)

    def refuse_subscription(self, _connection, _value):
        self.journal(event="subscription refused")
        raise att.ATT_Error(att.ATT_WRITE_NOT_PERMITTED_ERROR)

    def subscribed(self, _bearer, _characteristic, notify, _indicate):
        self.journal(event="subscribed" if notify else "unsubscribed")

    def write_request(self, bearer, request):
        """Bumble takes writes of both kinds everywhere; modules do not."""
        attribute = self.device.gatt_server.get_attribute(request.attribute_handle)
        if isinstance(attribute, Characteristic) and not attribute.properties & P.WRITE:
            self.journal(event="write request refused", characteristic=str(attribute.uuid))
            self.device.gatt_server.send_response(bearer, att.ATT_Error_Response(
                request_opcode_in_error=request.op_code,
                attribute_handle_in_error=request.attribute_handle,
                error_code=att.ATT_WRITE_NOT_PERMITTED_ERROR))
        else:
            self.request(bearer, request)

    def write_command(self, bearer, command):
        attribute = self.device.gatt_server.get_attribute(command.attribute_handle)
        if isinstance(attribute, Characteristic) and not attribute.properties & P.WRITE_WITHOUT_RESPONSE:
            self.journal(event="write command ignored", characteristic=str(attribute.uuid))
        else:
            self.command(bearer, command)

    async def notify(self, data):
        connection = self.connection
        # An old TC66C, and who has refused the subscription, notify without one.
        force = self.kind == "tc66c-old" or "cccd" in self.faults
        size = connection.att_mtu - 3
        for start in range(0, len(data), size):
            if self.connection is not connection:
                return
            await self.device.gatt_server.notify_subscriber(
                connection, self.notifier, data[start:start + size], force=force)

    # --- RFCOMM ---------------------------------------------------------------------------------

    def accepted(self, channel):
        self.journal(event="channel open", channel=self.channel)
        self.open_channel = channel
        channel.sink = self.hear

    async def send(self, data):
        if self.connection:
            self.open_channel.write(data)

    # --- Questions and answers ------------------------------------------------------------------

    def hear(self, data):
        if self.kind == "a3b":
            # Commands come wrapped, and others are not understood.
            if len(data) == 10 and data[:4] == b"\xff\x55\x11\x03":
                if data[9] == (sum(data[2:9]) & 0xFF) ^ 0x44:
                    self.ask(self.frames.hear(data[4]))
            else:
                self.journal(event="not understood", data=data.hex())
        elif isinstance(self.frames, bench.UMeter):
            for byte in data:
                if byte not in (*range(0xA0, 0xAA), *range(0xB0, 0xCF), *range(0xD0, 0xD6),
                                *range(0xE0, 0xEA), *range(0xF0, 0xF5)):
                    self.journal(event="not understood", data=bytes([byte]).hex())
                self.ask(self.frames.hear(byte))
        elif self.frames:
            self.heard = (self.heard + data)[-8:]
            if self.heard == b"bgetva\r\n":
                self.heard = b""
                self.ask("frame")

    def ask(self, wanted):
        if wanted == "frame":
            self.spawn(self.answer())
        elif wanted == "clear":
            self.load.energy = self.load.charge = 0.0

    async def answer(self):
        connection = self.connection
        await asyncio.sleep(self.latency)
        if self.connection is not connection or not self.on or self.mute:
            return
        if "silent" in self.faults:
            self.journal(event="silent")
            return
        volts, amperes = self.load.sample()
        data = self.frames.frame(volts, amperes, int(self.load.charge / 3.6),
                                 int(self.load.energy / 3.6), False)
        whole = "half" not in self.faults
        if not whole:
            data, self.mute = data[:len(data) // 2], True
        self.journal(event="frame" if whole else "half a frame", voltage=volts, current=amperes,
                     power=math.floor(volts * amperes * 10000) / 10000,
                     energy_wh=self.load.energy / 3600, charge_mah=self.load.charge / 3.6)
        await (self.send(data) if self.classic else self.notify(data))
