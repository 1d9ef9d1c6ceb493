#pragma once
#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/l2cap.h>
#include <bluetooth/rfcomm.h>
#include <bluetooth/sdp.h>
#include <bluetooth/sdp_lib.h>
#include <stdlib.h>

/* What to search for in a list of services: the serial port. To be freed with free(3) for its entry.
   Made here since Swift 6.0.3 ends on a variable of libbluetooth's uuid_t, of which name there is
   another type in libuuid. */
static inline sdp_list_t *CBluetooth_serial_port_search(void) {
    uuid_t *service = malloc(sizeof *service);
    if (service == NULL) return NULL;
    sdp_uuid16_create(service, SERIAL_PORT_SVCLASS_ID);
    return sdp_list_append(NULL, service);
}
