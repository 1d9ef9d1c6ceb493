import CLinux
import Glibc

/// Makes a terminal pass all bytes unchanged both ways, at 115,200 baud with 8 data bits, no
/// parity, one stop bit and no flow control; a read waits for one byte. Wraps `cfmakeraw(3)`.
///
/// USB and pseudo-terminals ignore the speed; a real serial line and some USB bridges do not.
/// - Throws: `Errno`; ENOTTY when it is not a terminal.
package func setRawMode(_ terminal: Int32) throws(Errno) {
    var settings = termios()
    try systemCall { tcgetattr(terminal, &settings) }
    cfmakeraw(&settings)
    try systemCall { cfsetspeed(&settings, speed_t(B115200)) }
    settings.c_cflag |= tcflag_t(CLOCAL | CREAD)
    settings.c_cflag &= ~(tcflag_t(CSTOPB) | tcflag_t(CRTSCTS))
    settings.c_cc.6 = 1  // VMIN
    settings.c_cc.5 = 0  // VTIME
    try systemCall { tcsetattr(terminal, TCSANOW, &settings) }
}
