import CBluetooth
import Glibc
import LinuxIO
import MeterCore

/// Asks a device's service discovery server for the channel of its serial port, by libbluetooth's
/// client, which blocks.
enum SerialPortLookup {
    static let limit: Duration = .seconds(5)

    /// - Parameter socket: connected to the server; is closed.
    /// - Returns: `nil` when there is no answer in time, or none with a channel.
    static func channel(
        over socket: WatchedDescriptor, by clock: any Timekeeper
    ) async -> UInt8? {
        let socket = socket.detach()
        // libbluetooth waits with select(2), whose sets end there
        guard socket.number < Int32(FD_SETSIZE), let handle = try? duplicate(socket.number) else {
            socket.close()
            return nil
        }
        let number = socket.release()
        let channel = await withTaskGroup(of: UInt8?.self, returning: UInt8?.self) { group in
            group.addTask {
                await BlockingWorker(label: "sdp").run { ask(OwnedDescriptor(adopting: number)) }
            }
            group.addTask {
                // at the end of the time, or of the task: the call above then returns
                try? await clock.sleep(for: limit)
                shutdown(handle, Int32(SHUT_RDWR))
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            let second = await group.next() ?? nil
            return first ?? second
        }
        OwnedDescriptor(adopting: handle).close()
        return channel
    }

    private static func duplicate(_ number: Int32) throws(Errno) -> Int32 {
        try systemCall { fcntl(number, F_DUPFD_CLOEXEC, 0) }
    }

    private static func ask(_ socket: consuming OwnedDescriptor) -> UInt8? {
        let number = socket.release()
        guard let session = sdp_create(number, 0) else {
            OwnedDescriptor(adopting: number).close()
            return nil
        }
        // closes the socket as well
        defer { sdp_close(session) }
        let services = CBluetooth_serial_port_search()
        defer { sdp_list_free(services) { free($0) } }
        var attribute = UInt16(SDP_ATTR_PROTO_DESC_LIST)
        return withUnsafeMutablePointer(to: &attribute) { attribute in
            let attributes = sdp_list_append(nil, attribute)
            defer { sdp_list_free(attributes, nil) }
            var records: UnsafeMutablePointer<sdp_list_t>?
            guard
                sdp_service_search_attr_req(
                    session, services, SDP_ATTR_REQ_INDIVIDUAL, attributes, &records) == 0
            else { return nil }
            defer { sdp_list_free(records, freeRecord) }
            return items(records).lazy.compactMap(channel).first
        }
    }

    private static let freeRecord: sdp_free_func_t = { record in
        sdp_record_free(record?.assumingMemoryBound(to: sdp_record_t.self))
    }
    private static let freeProtocols: sdp_free_func_t = { list in
        sdp_list_free(list?.assumingMemoryBound(to: sdp_list_t.self), nil)
    }

    private static func items(_ list: UnsafeMutablePointer<sdp_list_t>?)
        -> [UnsafeMutableRawPointer]
    {
        sequence(first: list) { $0?.pointee.next }.compactMap { $0?.pointee.data }
    }

    private static func channel(_ record: UnsafeMutableRawPointer) -> UInt8? {
        var protocols: UnsafeMutablePointer<sdp_list_t>?
        let record = record.assumingMemoryBound(to: sdp_record_t.self)
        guard sdp_get_access_protos(record, &protocols) == 0 else { return nil }
        defer { sdp_list_free(protocols, freeProtocols) }
        let port = sdp_get_proto_port(protocols, Int32(RFCOMM_UUID))
        return (1...30).contains(port) ? UInt8(port) : nil
    }
}
