import CYAML

/// A step through a YAML text, as libyaml reports it.
struct YAMLEvent {
    enum Kind {
        case documentStart
        case alias(name: String)
        case scalar(String, plain: Bool)
        case sequenceStart
        case mappingStart
        /// The end of a sequence or a mapping.
        case end
    }
    var kind: Kind
    var mark: Mark
    /// The name after `&`, which would let aliases repeat this value.
    var anchor: String?
    /// The type after `!`.
    var tag: String?
}

/// Why a text is not YAML.
struct YAMLSyntaxError: Error, Equatable {
    var mark: Mark
    /// In libyaml's words.
    var problem: String
    /// Where the thing began that libyaml was reading, for example a quoted text that never ends.
    var context: Mark?
}

enum YAMLEvents {
    /// Runs libyaml's `yaml_parser_parse` over a text and hands each event to `body`, until the
    /// text ends or `body` returns `false`. The text is valid UTF-8 without byte order mark and
    /// without control characters; what is not YAML is thrown.
    static func read(_ text: [UInt8], _ body: (YAMLEvent) -> Bool) throws(YAMLSyntaxError) {
        var parser = yaml_parser_t()
        // The parser keeps a pointer to itself, so it must not move between the calls.
        let outcome = withUnsafeMutablePointer(to: &parser) { parser in
            text.withUnsafeBufferPointer { text in
                read(text, with: parser, body)
            }
        }
        try outcome.get()
    }

    private static func read(
        _ text: UnsafeBufferPointer<UInt8>, with parser: UnsafeMutablePointer<yaml_parser_t>,
        _ body: (YAMLEvent) -> Bool
    ) -> Result<Void, YAMLSyntaxError> {
        precondition(yaml_parser_initialize(parser) == 1, "no memory for a YAML parser")
        defer { yaml_parser_delete(parser) }
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, text.baseAddress, text.count)
        while true {
            var raw = yaml_event_t()
            guard yaml_parser_parse(parser, &raw) == 1 else {
                return .failure(syntaxError(of: parser.pointee))
            }
            defer { yaml_event_delete(&raw) }
            if raw.type == YAML_STREAM_END_EVENT || raw.type == YAML_NO_EVENT {
                return .success(())
            }
            if let event = event(from: raw), !body(event) { return .success(()) }
        }
    }

    /// `nil` for the events that carry nothing: the start of the stream, the end of a document.
    private static func event(from raw: yaml_event_t) -> YAMLEvent? {
        let mark = Mark(raw.start_mark)
        switch raw.type {
        case YAML_DOCUMENT_START_EVENT:
            return YAMLEvent(kind: .documentStart, mark: mark)
        case YAML_ALIAS_EVENT:
            return YAMLEvent(kind: .alias(name: text(raw.data.alias.anchor) ?? ""), mark: mark)
        case YAML_SCALAR_EVENT:
            let scalar = raw.data.scalar
            let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            return YAMLEvent(
                kind: .scalar(
                    String(decoding: bytes, as: UTF8.self),
                    plain: scalar.style == YAML_PLAIN_SCALAR_STYLE),
                mark: mark, anchor: text(scalar.anchor), tag: text(scalar.tag))
        case YAML_SEQUENCE_START_EVENT:
            let start = raw.data.sequence_start
            return YAMLEvent(
                kind: .sequenceStart, mark: mark, anchor: text(start.anchor), tag: text(start.tag))
        case YAML_MAPPING_START_EVENT:
            let start = raw.data.mapping_start
            return YAMLEvent(
                kind: .mappingStart, mark: mark, anchor: text(start.anchor), tag: text(start.tag))
        case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
            return YAMLEvent(kind: .end, mark: mark)
        default:
            return nil
        }
    }

    private static func syntaxError(of parser: yaml_parser_t) -> YAMLSyntaxError {
        YAMLSyntaxError(
            mark: Mark(parser.problem_mark),
            problem: parser.problem.map { String(cString: $0) } ?? "out of memory",
            context: parser.context == nil ? nil : Mark(parser.context_mark))
    }

    private static func text(_ pointer: UnsafeMutablePointer<yaml_char_t>?) -> String? {
        pointer.map { String(cString: $0) }
    }
}

extension Mark {
    fileprivate init(_ mark: yaml_mark_t) {
        // libyaml counts from 0.
        self.init(line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }
}
