"""Radios that hear each other: the adapter that the kernel gets, and the modules inside the meters.

Bumble has the host side of Bluetooth (ATT, GATT, L2CAP, RFCOMM, SDP) and an emulated controller for
LE. What that lacks and a meter needs is here: inquiry, paging, names, legacy PINs with link keys,
supervision time-outs, a filter accept list, duplicate filtering, a limit of links, and power that
can be lost.

The adapter is of the cheap kind: version 4.0, LE with the first commands only, no extended
advertising, simple pairing on its side, at most `slots` links.
"""
import asyncio
import os
import random

from bumble import core, hci, ll, lmp
from bumble.controller import Connection, Controller
from bumble.link import LocalLink

LE, CLASSIC = core.PhysicalTransport.LE, core.PhysicalTransport.BR_EDR
Code = hci.HCI_ErrorCode

PAGE_SECONDS = 5.12
# Of Bluetooth Classic, unless the host asks for another.
SUPERVISION_SECONDS = 20.0


def public(text):
    return hci.Address(text, hci.Address.PUBLIC_DEVICE_ADDRESS)


class Ether(LocalLink):
    """Carries packets between controllers that have power, and loses all others."""

    def module(self, address):
        for controller in self.controllers:
            if isinstance(controller, Module) and controller.public_address == address:
                return controller
        return None

    def other_end(self, sender, destination, transport):
        """The controller and its connection that a connection of the sender leads to."""
        mine = sender.links(transport).get(destination)
        for other in self.controllers if mine else ():
            theirs = other.links(transport).get(mine.self_address)
            if theirs and theirs.self_address == destination and theirs.role != mine.role:
                return other, theirs
        return None, None

    def send_acl_data(self, sender_controller, destination_address, transport, data):
        other, connection = self.other_end(sender_controller, destination_address, transport)
        if other and sender_controller.powered and other.powered:
            asyncio.get_running_loop().call_soon(
                other.on_link_acl_data, connection.peer_address, transport, data)

    def send_advertising_pdu(self, sender_controller, packet):
        if not sender_controller.powered:
            return
        if isinstance(packet, ll.ConnectInd):
            # At once, so that of two adapters that want a meter one is the first.
            if module := self.module(packet.advertiser_address):
                module.on_ll_advertising_pdu(packet)
            return
        for controller in list(self.controllers):
            if isinstance(controller, Adapter) and controller.powered:
                controller.hear(sender_controller, packet)

    def send_ll_control_pdu(self, sender_address, receiver_address, packet):
        receiver = self.find_le_controller(receiver_address)
        sender = self.find_le_controller(sender_address)
        if receiver and receiver.powered and sender and sender.powered:
            asyncio.get_running_loop().call_soon(
                self.deliver_control, receiver, sender_address, packet)

    @staticmethod
    def deliver_control(receiver, sender_address, packet):
        if sender_address in receiver.le_connections:
            receiver.on_ll_control_pdu(sender_address, packet)

    def send_lmp_packet(self, sender_controller, receiver_address, packet):
        receiver = self.find_classic_controller(receiver_address)
        if receiver and receiver.powered and sender_controller.powered:
            asyncio.get_running_loop().call_soon(
                receiver.on_lmp_packet, sender_controller.public_address, packet)


class Radio(Controller):
    """What adapter and module have in common."""

    # 4.0
    hci_version = lmp_version = 6
    le_features = hci.LeFeatureMask.LE_ENCRYPTION
    lmp_features_max_page_number = 1
    powered = True

    def links(self, transport):
        return self.le_connections if transport == LE else self.classic_connections

    def report(self, event, delay=0.0):
        if delay:
            asyncio.get_running_loop().call_later(delay, self.send_hci_packet, event)
        else:
            self.send_hci_packet(event)

    def forget(self, connection, reason):
        """Ends a connection on this side only."""
        table = self.links(connection.transport)
        if table.get(connection.peer_address) is connection:
            del table[connection.peer_address]
            self.send_hci_packet(hci.HCI_Disconnection_Complete_Event(
                status=Code.SUCCESS, connection_handle=connection.handle, reason=reason))

    def forget_later(self, connection, seconds):
        """The other side has fallen silent: the supervision time-out ends the connection."""
        asyncio.get_running_loop().call_later(
            seconds, self.forget, connection, Code.CONNECTION_TIMEOUT_ERROR)

    def on_hci_disconnect_command(self, command):
        connection = self.find_connection_by_handle(command.connection_handle)
        if connection is None:
            self._send_hci_command_status(
                Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, command.op_code)
            return
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
        other, theirs = self.link.other_end(self, connection.peer_address, connection.transport)
        if other and other.powered and self.powered:
            asyncio.get_running_loop().call_soon(other.forget, theirs, command.reason)
        asyncio.get_running_loop().call_later(
            0.03, self.forget, connection, Code.CONNECTION_TERMINATED_BY_LOCAL_HOST_ERROR)

    def fall_silent(self):
        """Loses power: this side forgets everything at once, the others after their time-outs."""
        for transport in (LE, CLASSIC):
            for connection in list(self.links(transport).values()):
                other, theirs = self.link.other_end(self, connection.peer_address, transport)
                if other:
                    other.forget_later(theirs, other.supervision(theirs))
                self.forget(connection, Code.CONNECTION_TIMEOUT_ERROR)
        self.powered = False

    def supervision(self, connection):
        return getattr(connection, "supervision", 0.5 if connection.transport == LE else 2.0)


class Module(Radio):
    """The radio in a meter. Its PIN is asked for at each new link unless there is a link key."""

    def __init__(self, name, link, address, classic, rssi, pin):
        super().__init__(name, link=link, public_address=address)
        if classic:
            # Encryption, and nothing else of note: older than simple pairing.
            self.lmp_features = hci.LmpFeatureMask(1 << 2)
        else:
            self.lmp_features = hci.LmpFeatureMask(1 << 37 | 1 << 38)
        self.rssi, self.pin, self.keys = rssi, pin, {}
        self.class_of_device = 0x1F00
        # What adapters sent before the PIN was right, by address.
        self.locked = {}
        # By a phone that is not played here.
        self.held = False

    @property
    def busy(self):
        return bool(self.held or self.le_connections or self.classic_connections)

    def can_be_paged(self):
        return self.powered and self.classic_scan_enable & 2 and not self.busy

    def lock(self, address):
        self.locked[address] = []

    def unlock(self, address):
        for data in self.locked.pop(address, []):
            self.on_link_acl_data(address, CLASSIC, data)

    def on_link_acl_data(self, sender_address, transport, data):
        if sender_address in self.locked and transport == CLASSIC:
            self.locked[sender_address].append(data)
        elif sender_address in self.links(transport):
            super().on_link_acl_data(sender_address, transport, data)

    def forget(self, connection, reason):
        self.locked.pop(connection.peer_address, None)
        super().forget(connection, reason)

    def fall_silent(self):
        self.le_legacy_advertiser.stop()
        super().fall_silent()

    def on_hci_write_secure_connections_host_support_command(self, _command):
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)


# What a controller answers to commands that change nothing here: the bytes after the status.
PLAIN_REPLIES = {
    0x080F: b"",  # write default link policy
    0x0C05: b"",  # set event filter
    0x0C0D: bytes(4),  # read stored link keys
    0x0C12: bytes(2),  # delete stored link keys
    0x0C16: b"",  # write connection accept time-out
    0x0C18: b"",  # write page time-out
    0x0C1B: bytes.fromhex("00081200"),  # read page scan activity
    0x0C1C: b"",  # write page scan activity
    0x0C1E: b"",  # write inquiry scan activity
    0x0C20: b"",  # write authentication enable
    0x0C25: bytes(2),  # read voice setting
    0x0C38: b"\x01",  # read number of supported access codes
    0x0C39: bytes.fromhex("01338b9e"),  # read current access codes
    0x0C3A: b"",  # write current access codes
    0x0C43: b"",  # write inquiry scan type
    0x0C45: b"",  # write inquiry mode
    0x0C46: b"\x00",  # read page scan type
    0x0C47: b"",  # write page scan type
    0x0C58: b"\x00",  # read inquiry response power
    0x0C7A: b"",  # write secure connections support
}


class Kernel:
    """Takes the packets that go to the kernel."""

    def __init__(self, device):
        self.device = device

    def on_packet(self, packet):
        try:
            os.write(self.device, packet)
        except OSError:
            pass  # unplugged meanwhile


class Adapter(Radio):
    """The dongle: what the kernel sees as one hciN."""

    supported_commands = Controller.supported_commands | {
        hci.HCI_READ_LOCAL_EXTENDED_FEATURES_COMMAND, hci.HCI_READ_LOCAL_SUPPORTED_COMMANDS_COMMAND}

    def __init__(self, name, link, address, slots, journal):
        super().__init__(name, link=link, public_address=address)
        # Encryption, role switch, RSSI with inquiry, LE, simple pairing, extended features.
        self.lmp_features = hci.LmpFeatureMask(
            1 << 2 | 1 << 5 | 1 << 30 | 1 << 38 | 1 << 51 | 1 << 63)
        self.acl_data_packet_length = 1021
        self.total_num_acl_data_packets = 8
        self.le_acl_data_packet_length = 27
        self.total_num_le_acl_data_packets = 8
        self.slots, self.journal = slots, journal
        # Commands are swallowed: what a wedged firmware does.
        self.wedged = False
        self.accept_list, self.heard = set(), set()
        self.paging = self.inquiring = None
        # Running authentications: whether the kernel asked for it, by address.
        self.proving = {}
        self.device = None

    # --- Life -----------------------------------------------------------------------------------

    async def plug(self):
        """Appears in the kernel as hciN, and tells N."""
        self.device = os.open("/dev/vhci", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Makes an adapter for LE and Classic; the kernel answers with its number.
        os.write(self.device, b"\xff\x00")
        self.index = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self.device, self.from_kernel)
        self.host = Kernel(self.device)
        self.powered = True
        return await asyncio.wait_for(self.index, 5)

    def from_kernel(self):
        # One packet a read.
        packet = os.read(self.device, 4096)
        if packet[0] != 0xFF:
            self.on_packet(packet)
        elif not self.index.done():
            self.index.set_result(int.from_bytes(packet[2:4], "little"))

    async def unplug(self):
        self.fall_silent()
        self.restart()
        self.host = None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.device)
        device, self.device = self.device, None
        # Takes as long as the kernel waits for answers that do not come any more.
        await loop.run_in_executor(None, os.close, device)

    def restart(self):
        """What a reset does."""
        for task in (self.paging, self.inquiring):
            if task:
                task.cancel()
        self.paging = self.inquiring = self.pending_le_connection = None
        self.le_scan_enable = False
        self.accept_list.clear()
        self.proving.clear()

    def on_hci_reset_command(self, _command):
        powered = self.powered
        self.fall_silent()
        self.restart()
        self.powered = powered
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    # --- Commands -------------------------------------------------------------------------------

    def on_packet(self, packet):
        """From the kernel."""
        if not self.wedged:
            super().on_packet(packet)

    def on_hci_command_packet(self, command):
        opcode = command.op_code
        if opcode in PLAIN_REPLIES:
            self.complete(opcode, b"\x00" + PLAIN_REPLIES[opcode])
        elif hasattr(self, f"on_{command.name.lower()}"):
            super().on_hci_command_packet(command)
        else:
            self.journal("adapter", event="unknown command", command=command.name)
            if isinstance(command, hci.HCI_AsyncCommand):
                self._send_hci_command_status(Code.UNKNOWN_HCI_COMMAND_ERROR, opcode)
            else:
                self.complete(opcode, bytes([Code.UNKNOWN_HCI_COMMAND_ERROR]))

    def complete(self, opcode, parameters):
        event = bytes([0x04, 0x0E, 3 + len(parameters), 1]) + opcode.to_bytes(2, "little")
        if self.host:
            asyncio.get_running_loop().call_soon(self.host.on_packet, event + parameters)

    def send_hci_packet(self, packet):
        if not self.wedged:
            super().send_hci_packet(packet)

    def strength(self, address):
        module = self.link.module(address)
        return (module.rssi if module else -90) + random.randint(-2, 2)

    def on_hci_read_rssi_command(self, command):
        connection = self.find_connection_by_handle(command.handle)
        if connection is None:
            return hci.HCI_StatusReturnParameters(Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR)
        return hci.HCI_Read_RSSI_ReturnParameters(
            status=Code.SUCCESS, handle=command.handle, rssi=self.strength(connection.peer_address))

    # --- LE -------------------------------------------------------------------------------------

    def on_hci_le_set_scan_enable_command(self, command):
        self.heard.clear()
        return super().on_hci_le_set_scan_enable_command(command)

    def on_hci_le_clear_filter_accept_list_command(self, _command):
        self.accept_list.clear()
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    def on_hci_le_add_device_to_filter_accept_list_command(self, command):
        self.accept_list.add(bytes(command.address))
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    def on_hci_le_remove_device_from_filter_accept_list_command(self, command):
        self.accept_list.discard(bytes(command.address))
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    def hear(self, module, packet):
        """An advertisement is in the air."""
        address = packet.advertiser_address
        if self.le_scan_enable:
            Type = hci.HCI_LE_Advertising_Report_Event.EventType
            self.pass_on(Type.ADV_IND, address, packet.data)
            if self.le_scan_type == 1:
                self.pass_on(Type.SCAN_RSP, address, module.le_legacy_advertiser.scan_response_data)
        pending = self.pending_le_connection
        if pending and module.le_legacy_advertiser.enabled and self.wanted(pending, address):
            timeout = pending.supervision_timeout / 100
            self.create_le_connection(address)
            if connection := self.le_connections.get(address):
                connection.supervision = timeout
                # Stands for any number of parameters that the module would see.
                module.le_connections[self.public_address].supervision = timeout

    def wanted(self, pending, address):
        if pending.initiator_filter_policy == 1:
            return bytes(address) in self.accept_list
        return pending.peer_address == address

    def pass_on(self, kind, address, data):
        if self.le_scanning_filter_policy & 1 and bytes(address) not in self.accept_list:
            return
        key = (kind, bytes(address), data)
        if self.filter_duplicates and key in self.heard:
            return
        self.heard.add(key)
        self.send_hci_packet(hci.HCI_LE_Advertising_Report_Event([
            hci.HCI_LE_Advertising_Report_Event.Report(
                event_type=kind, address_type=address.address_type, address=address, data=data,
                rssi=self.strength(address))]))

    def on_hci_le_create_connection_command(self, command):
        if len(self.le_connections) + len(self.classic_connections) >= self.slots:
            self._send_hci_command_status(Code.CONNECTION_LIMIT_EXCEEDED_ERROR, command.op_code)
        else:
            super().on_hci_le_create_connection_command(command)

    def on_hci_le_create_connection_cancel_command(self, _command):
        pending, self.pending_le_connection = self.pending_le_connection, None
        if pending is None:
            return hci.HCI_StatusReturnParameters(Code.COMMAND_DISALLOWED_ERROR)
        asyncio.get_running_loop().call_soon(
            self.send_hci_packet, hci.HCI_LE_Connection_Complete_Event(
                status=Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, connection_handle=0,
                role=hci.Role.CENTRAL, peer_address_type=pending.peer_address.address_type,
                peer_address=pending.peer_address, connection_interval=0, peripheral_latency=0,
                supervision_timeout=0, central_clock_accuracy=0))
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    def on_hci_le_connection_update_command(self, command):
        if connection := self.find_le_connection_by_handle(command.connection_handle):
            connection.supervision = command.supervision_timeout / 100
        super().on_hci_le_connection_update_command(command)

    # --- Classic: finding -----------------------------------------------------------------------

    def on_hci_inquiry_command(self, command):
        if self.inquiring:
            self._send_hci_command_status(Code.COMMAND_DISALLOWED_ERROR, command.op_code)
            return
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
        self.inquiring = asyncio.ensure_future(self.inquire(1.28 * command.inquiry_length))

    async def inquire(self, seconds):
        end = asyncio.get_running_loop().time() + seconds
        found = set()
        while (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(0.7, left))
            for module in list(self.link.controllers):
                if not isinstance(module, Module) or module in found or not module.powered:
                    continue
                if module.classic_scan_enable & 1 and not module.busy:
                    found.add(module)
                    self.send_hci_packet(hci.HCI_Inquiry_Result_With_RSSI_Event(
                        bd_addr=[module.public_address], page_scan_repetition_mode=[1],
                        reserved=[0], class_of_device=[module.class_of_device], clock_offset=[0],
                        rssi=[self.strength(module.public_address)]))
        self.inquiring = None
        self.send_hci_packet(hci.HCI_Inquiry_Complete_Event(status=Code.SUCCESS))

    def on_hci_inquiry_cancel_command(self, _command):
        if self.inquiring is None:
            return hci.HCI_StatusReturnParameters(Code.COMMAND_DISALLOWED_ERROR)
        self.inquiring.cancel()
        self.inquiring = None
        return hci.HCI_StatusReturnParameters(Code.SUCCESS)

    def on_hci_remote_name_request_command(self, command):
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
        module, status, name, delay = self.link.module(command.bd_addr), Code.SUCCESS, b"", 0.3
        ours = self.classic_connections.get(command.bd_addr)
        if module and (module.can_be_paged() or ours):
            name = module.local_name.encode()
        else:
            status, delay = Code.PAGE_TIMEOUT_ERROR, PAGE_SECONDS
        self.report(hci.HCI_Remote_Name_Request_Complete_Event(
            status=status, bd_addr=command.bd_addr, remote_name=name), delay)

    def on_hci_remote_name_request_cancel_command(self, command):
        return hci.HCI_StatusAndAddressReturnParameters(
            status=Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, bd_addr=command.bd_addr)

    # --- Classic: links -------------------------------------------------------------------------

    def on_hci_create_connection_command(self, command):
        if self.paging or command.bd_addr in self.classic_connections:
            self._send_hci_command_status(Code.COMMAND_DISALLOWED_ERROR, command.op_code)
        elif len(self.le_connections) + len(self.classic_connections) >= self.slots:
            self._send_hci_command_status(Code.CONNECTION_LIMIT_EXCEEDED_ERROR, command.op_code)
        else:
            self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
            self.paging = asyncio.ensure_future(self.page(command.bd_addr))
            self.paging.address = command.bd_addr

    async def page(self, address):
        module = self.link.module(address)
        if module is None or not module.can_be_paged():
            await asyncio.sleep(PAGE_SECONDS)
            self.paging = None
            self.on_classic_connection_complete(address, Code.PAGE_TIMEOUT_ERROR)
            return
        await asyncio.sleep(0.2)
        connection = Connection(
            controller=self, handle=0, role=hci.Role.CENTRAL, self_address=self.public_address,
            peer_address=address, link=self.link, transport=CLASSIC,
            link_type=hci.HCI_Connection_Complete_Event.LinkType.ACL)
        connection.supervision = SUPERVISION_SECONDS
        self.classic_connections[address] = connection
        try:
            answer = self.send_lmp_packet(address, lmp.LmpHostConnectionReq())
            status = await asyncio.wait_for(answer, PAGE_SECONDS)
        except asyncio.TimeoutError:
            status = Code.PAGE_TIMEOUT_ERROR
        except asyncio.CancelledError:
            self.classic_connections.pop(address, None)
            raise
        self.paging = None
        if status != Code.SUCCESS:
            self.classic_connections.pop(address, None)
        self.on_classic_connection_complete(address, status)
        if status == Code.SUCCESS and module.pin is not None:
            module.lock(self.public_address)
            self.prove(connection, asked=False)

    def on_hci_create_connection_cancel_command(self, command):
        paging, self.paging = self.paging, None
        status = Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR
        if paging and paging.address == command.bd_addr:
            paging.cancel()
            asyncio.get_running_loop().call_soon(
                self.on_classic_connection_complete, command.bd_addr, status)
            status = Code.SUCCESS
        else:
            self.paging = paging
        return hci.HCI_StatusAndAddressReturnParameters(status=status, bd_addr=command.bd_addr)

    def on_hci_write_link_supervision_timeout_command(self, command):
        if connection := self.find_classic_connection_by_handle(command.handle):
            connection.supervision = command.link_supervision_timeout * 0.000625
        return hci.HCI_Write_Link_Supervision_Timeout_ReturnParameters(
            status=Code.SUCCESS, handle=command.handle)

    def on_lmp_packet(self, sender_address, packet):
        if isinstance(packet, lmp.LmpDetach):
            if connection := self.classic_connections.get(sender_address):
                self.forget(connection, packet.error_code)
            return
        super().on_lmp_packet(sender_address, packet)

    def on_hci_change_connection_packet_type_command(self, command):
        self._send_hci_command_status(Code.UNKNOWN_HCI_COMMAND_ERROR, command.op_code)

    # --- Classic: PIN and link keys -------------------------------------------------------------

    def prove(self, connection, asked):
        """Starts an authentication, which the kernel has asked for or the meter wants."""
        address = connection.peer_address
        running = address in self.proving
        self.proving[address] = asked or self.proving.get(address, False)
        if not running:
            self.send_hci_packet(hci.HCI_Link_Key_Request_Event(bd_addr=address))

    def proved(self, address, status):
        asked = self.proving.pop(address, False)
        connection = self.classic_connections.get(address)
        module = self.link.module(address)
        if connection is None or module is None:
            return
        self.journal(module.name, event="authenticated" if status == 0 else "not authenticated",
                     status=int(status))
        if asked:
            self.send_hci_packet(hci.HCI_Authentication_Complete_Event(
                status=status, connection_handle=connection.handle))
        if status == Code.SUCCESS:
            module.unlock(self.public_address)
        elif self.public_address in module.locked:
            # The meter hangs up.
            if theirs := module.classic_connections.get(self.public_address):
                module.forget(theirs, Code.AUTHENTICATION_FAILURE_ERROR)
            asyncio.get_running_loop().call_later(
                0.05, self.forget, connection, Code.AUTHENTICATION_FAILURE_ERROR)

    def on_hci_authentication_requested_command(self, command):
        connection = self.find_classic_connection_by_handle(command.connection_handle)
        if connection is None:
            self._send_hci_command_status(
                Code.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, command.op_code)
            return
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
        self.prove(connection, asked=True)

    def on_hci_link_key_request_reply_command(self, command):
        module = self.link.module(command.bd_addr)
        key = module.keys.get(self.public_address) if module else None
        status = Code.PIN_OR_KEY_MISSING_ERROR
        if key:
            status = Code.SUCCESS if key == command.link_key else Code.AUTHENTICATION_FAILURE_ERROR
        asyncio.get_running_loop().call_later(0.02, self.proved, command.bd_addr, status)
        return self.address_reply(command)

    def on_hci_link_key_request_negative_reply_command(self, command):
        module = self.link.module(command.bd_addr)
        if module and module.pin is None:
            # Nothing to prove; a key comes of it all the same.
            asyncio.get_running_loop().call_later(0.02, self.agree, command.bd_addr, module)
        else:
            self.report(hci.HCI_PIN_Code_Request_Event(bd_addr=command.bd_addr), 0.02)
        return self.address_reply(command)

    def on_hci_pin_code_request_reply_command(self, command):
        module = self.link.module(command.bd_addr)
        pin = command.pin_code[:command.pin_code_length].decode(errors="replace")
        if module:
            self.journal(module.name, event="pin", pin=pin)
        if module and pin == module.pin:
            asyncio.get_running_loop().call_later(0.1, self.agree, command.bd_addr, module)
        else:
            asyncio.get_running_loop().call_later(
                0.1, self.proved, command.bd_addr, Code.AUTHENTICATION_FAILURE_ERROR)
        return self.address_reply(command)

    def on_hci_pin_code_request_negative_reply_command(self, command):
        if module := self.link.module(command.bd_addr):
            self.journal(module.name, event="pin", pin=None)
        asyncio.get_running_loop().call_later(
            0.02, self.proved, command.bd_addr, Code.PIN_OR_KEY_MISSING_ERROR)
        return self.address_reply(command)

    def agree(self, address, module):
        key = random.randbytes(16)
        module.keys[self.public_address] = key
        self.send_hci_packet(hci.HCI_Link_Key_Notification_Event(
            bd_addr=address, link_key=key, key_type=hci.LinkKeyType.COMBINATION_KEY))
        self.proved(address, Code.SUCCESS)

    def on_hci_set_connection_encryption_command(self, command):
        self._send_hci_command_status(hci.HCI_COMMAND_STATUS_PENDING, command.op_code)
        self.report(hci.HCI_Encryption_Change_Event(
            status=Code.SUCCESS, connection_handle=command.connection_handle,
            encryption_enabled=command.encryption_enable), 0.02)

    @staticmethod
    def address_reply(command):
        return hci.HCI_StatusAndAddressReturnParameters(
            status=Code.SUCCESS, bd_addr=command.bd_addr)
