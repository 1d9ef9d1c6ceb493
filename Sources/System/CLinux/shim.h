#pragma once
#include <pty.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/timex.h>
#include <termios.h>
#include <unistd.h>

/* glibc shows these only under _GNU_SOURCE or _XOPEN_SOURCE, which would change every header of
   the module; the functions themselves are always there. */
const char *strerrorname_np(int code);
const char *strerrordesc_np(int code);
int pipe2(int descriptors[2], int flags);
int pthread_setname_np(pthread_t thread, const char *name);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
int posix_openpt(int flags);
int grantpt(int terminal);
int unlockpt(int terminal);
int ptsname_r(int terminal, char *buffer, size_t size);

/* Swift 6 refuses the global variable itself. */
static inline char **linux_environment(void) {
    extern char **environ;
    return environ;
}
