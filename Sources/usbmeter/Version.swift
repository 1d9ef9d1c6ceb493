/// The version of this program, in receipts and on the command line.
let softwareVersion = "0.1.0"
