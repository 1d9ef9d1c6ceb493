#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <pthread.h>

// A GNU extension, which Swift's Glibc module leaves out: names the library's network thread.
int pthread_setname_np(pthread_t thread, const char *name);
